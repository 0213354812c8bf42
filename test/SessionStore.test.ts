import { layerMemory } from "../src/SessionStore.ts"
import { sessionStoreConformance } from "./SessionStoreConformance.ts"
import { leakCheck } from "./utils/leaks.ts"

leakCheck()

sessionStoreConformance("the memory store", () => layerMemory)
