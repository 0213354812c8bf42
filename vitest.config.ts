import { defineConfig } from "vitest/config"

/** Suites that need more than node and npm, or minutes: each runs by itself, with `vitest run --mode NAME`. */
const apart: Readonly<Record<string, string>> = {
  package: "test/packaging/**/*.test.ts",
  live: "test/live/**/*.test.ts"
}

export default defineConfig(({ mode }) => ({
  test: {
    include: [apart[mode] ?? "test/**/*.test.ts"],
    exclude: mode in apart ? [] : Object.values(apart),
    passWithNoTests: mode === "live",
    setupFiles: ["./test/utils/setup.ts"],
    testTimeout: mode in apart ? 120_000 : 20_000,
    hookTimeout: mode in apart ? 120_000 : 20_000
  }
}))
