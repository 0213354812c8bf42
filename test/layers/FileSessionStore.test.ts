import { Effect, Layer } from "effect"
import * as FileSessionStore from "../../src/layers/FileSessionStore.ts"
import { sessionStoreConformance } from "../SessionStoreConformance.ts"
import { leakCheck, tempDir } from "../utils/leaks.ts"

leakCheck()

sessionStoreConformance(
  "the file store",
  () => Layer.unwrap(Effect.map(tempDir, (directory) => FileSessionStore.layerNode({ directory })))
)
