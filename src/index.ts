/**
 * The front door: every module that needs nothing but `effect`, as a namespace.
 *
 * Stores, model bridges, ready compositions and test helpers are modules of their own, such as
 * `effect-subagent/layers/Local`.
 *
 * @since 0.1.0
 */
export * as Agent from "./Agent.ts"
export * as AgentModels from "./AgentModels.ts"
export * as AgentTools from "./AgentTools.ts"
export * as Approvals from "./Approvals.ts"
export * as CurrentAgent from "./CurrentAgent.ts"
export * as OutputSchema from "./OutputSchema.ts"
export * as Fork from "./providers/Fork.ts"
export * as Scripted from "./providers/Scripted.ts"
export * as Spawn from "./providers/Spawn.ts"
export * as Session from "./Session.ts"
export * as SessionStore from "./SessionStore.ts"
export * as Subagent from "./Subagent.ts"
export * as SubagentLimits from "./SubagentLimits.ts"
export * as SubagentTool from "./SubagentTool.ts"
export * as SystemPrompt from "./SystemPrompt.ts"
