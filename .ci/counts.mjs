// Prints how many tests of a vitest report passed and failed. A run that ended badly has failed at least once.
import { existsSync, readFileSync } from "node:fs"

const [report, code] = process.argv.slice(2)
let passed = 0
let failed = 0
if (existsSync(report)) {
  const { numFailedTests, numPassedTests, testResults } = JSON.parse(readFileSync(report, "utf8"))
  passed = numPassedTests
  failed = numFailedTests
  for (const file of testResults) {
    const inTests = file.assertionResults.some((test) => test.status === "failed")
    if (file.status === "failed" && !inTests) failed++
  }
}
if (code !== "0" && failed === 0) failed = 1
console.log(`${passed} ${failed}`)
