#!/usr/bin/env node
/**
 * The program behind the `subagent` command.
 *
 * @since 0.1.0
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as process from "node:process"
import { main } from "./command.ts"
import * as Diagnostics from "./diagnostics.ts"
import * as Output from "./output.ts"

main(process.argv.slice(2)).pipe(
  Effect.provide(Layer.mergeAll(Output.layer, Diagnostics.layer, NodeServices.layer)),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: (exit, onExit) =>
      // a signal interrupts, and nothing that fails on the way out changes what it was
      Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause) ? onExit(130) : Runtime.defaultTeardown(exit, onExit)
  })
)
