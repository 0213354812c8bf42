/**
 * A model provider on the loopback interface, for tests of everything that talks to one over HTTP. It speaks Anthropic
 * Messages (`/v1/messages`), OpenAI Responses (`/v1/responses`) and OpenAI chat completions (`/v1/chat/completions`),
 * streaming and not, and answers each request with the next of the replies that the test has queued, whichever protocol
 * it arrives by.
 *
 * It never invents an answer: a request for which nothing is queued gets status 500 and says so.
 */
import { Deferred, Effect, Exit, type Scope } from "effect"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { anthropic } from "./fakeModel/anthropic.ts"
import { chat } from "./fakeModel/chat.ts"
import { responses } from "./fakeModel/responses.ts"
import type { Answer, Exchange, Protocol, ProviderFault, SseEvent, Wire } from "./fakeModel/wire.ts"

export { answer, call, citation, reasoning, redacted, text } from "./fakeModel/wire.ts"
export type { Answer, Finish, Part, Protocol, ProviderFault, Usage } from "./fakeModel/wire.ts"

const wires: Readonly<Record<Protocol, Wire>> = { anthropic, chat, responses }

export interface HttpError extends ProviderFault {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Sent instead of an error in the protocol's own form. */
  readonly body?: string | undefined
}

/** `"hang"`: no byte until the client hangs up. `"drop"`: the socket is closed before the first byte. */
export type Reply = Answer | HttpError | "hang" | "drop"

export interface RecordedRequest {
  readonly protocol: Protocol
  readonly path: string
  readonly stream: boolean
  readonly body: any
  /** Lower-cased names. Of credentials only their presence is kept. */
  readonly headers: Readonly<Record<string, string>>
}

export interface FakeModelServer {
  /** What the providers take as `baseURL`. */
  readonly baseURL: string
  /** Appends to what will be answered. */
  readonly reply: (...replies: ReadonlyArray<Reply>) => Effect.Effect<void>
  readonly requests: Effect.Effect<ReadonlyArray<RecordedRequest>>
  /** Waits for the request of that index, from 0. */
  readonly arrived: (index: number) => Effect.Effect<RecordedRequest>
  /** Waits until the client has hung up on the request of that index before its answer was complete. */
  readonly hungUp: (index: number) => Effect.Effect<void>
}

interface Slot {
  readonly arrived: Deferred.Deferred<RecordedRequest>
  readonly hungUp: Deferred.Deferred<void>
}

/** Listens on a port of its own for as long as the scope is open. */
export const make = (...script: ReadonlyArray<Reply>): Effect.Effect<FakeModelServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const queue: Array<Reply> = [...script]
    const requests: Array<RecordedRequest> = []
    const slots: Array<Slot> = []
    const slot = (index: number): Slot => {
      while (slots.length <= index) {
        slots.push({ arrived: Deferred.makeUnsafe(), hungUp: Deferred.makeUnsafe() })
      }
      return slots[index]
    }

    const handle = (request: Http.IncomingMessage, raw: string, response: Http.ServerResponse) => {
      const protocol = protocolOf(request.url ?? "")
      if (protocol === undefined) {
        response.writeHead(404).end()
        return
      }
      const body = JSON.parse(raw)
      const recorded: RecordedRequest = {
        protocol,
        path: request.url ?? "",
        stream: body.stream === true,
        body,
        headers: withoutCredentials(request.headers)
      }
      const { arrived, hungUp } = slot(requests.length)
      requests.push(recorded)
      response.on("close", () => {
        if (!response.writableFinished) Deferred.doneUnsafe(hungUp, Exit.void)
      })
      Deferred.doneUnsafe(arrived, Exit.succeed(recorded))
      respond(wires[protocol], recorded, queue.shift() ?? { status: 500, message: "nothing is queued" }, response)
    }

    const server = yield* Effect.acquireRelease(
      Effect.callback<Http.Server>((resume) => {
        const server = Http.createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk) => chunks.push(chunk))
          request.on("end", () => handle(request, Buffer.concat(chunks).toString("utf8"), response))
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )

    return {
      // A server that listens on a TCP port has an address of that shape.
      baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
      reply: (...replies) => Effect.sync(() => void queue.push(...replies)),
      requests: Effect.sync(() => [...requests]),
      arrived: (index) => Effect.suspend(() => Deferred.await(slot(index).arrived)),
      hungUp: (index) => Effect.suspend(() => Deferred.await(slot(index).hungUp))
    }
  })

const protocolOf = (path: string): Protocol | undefined =>
  path.endsWith("/messages")
    ? "anthropic"
    : path.endsWith("/responses")
    ? "responses"
    : path.endsWith("/chat/completions")
    ? "chat"
    : undefined

const withoutCredentials = (headers: Http.IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      /auth|key|token|cookie/.test(name) ? "<present>" : String(value)
    ])
  )

const isAnswer = (reply: Reply): reply is Answer => typeof reply === "object" && "parts" in reply

const respond = (wire: Wire, request: RecordedRequest, reply: Reply, response: Http.ServerResponse): void => {
  if (reply === "hang") return
  if (reply === "drop") {
    response.destroy()
    return
  }
  if (!isAnswer(reply)) {
    response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers })
    response.end(reply.body ?? JSON.stringify(wire.fault(reply)))
    return
  }
  const exchange: Exchange = {
    model: request.body.model,
    includeUsage: request.body.stream_options?.include_usage === true,
    answer: reply,
    finish: reply.finish ?? (reply.parts.some((part) => part.type === "call") ? "tool-calls" : "stop"),
    usage: reply.usage ?? { input: 11, output: 7 }
  }
  const end = reply.end ?? "finish"
  if (!request.stream) {
    if (typeof end === "object") {
      response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify(wire.fault(end)))
      return
    }
    const body = JSON.stringify(wire.body(exchange))
    response.writeHead(200, { "content-type": "application/json" })
    if (end === "finish") response.end(body)
    else response.write(body.slice(0, body.length / 2), () => end === "hang" ? undefined : response.destroy())
    return
  }
  const { body, tail } = wire.events(exchange)
  const events = end === "finish"
    ? [...body, ...tail]
    : typeof end === "object"
    ? [...body, wire.faultEvent(end)]
    : body
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  send(response, events, reply.delay ?? 0, () => {
    if (end === "drop") response.destroy()
    else if (end !== "hang") response.end()
  })
}

const send = (
  response: Http.ServerResponse,
  events: ReadonlyArray<SseEvent>,
  delay: number,
  done: () => void
): void => {
  const [event, ...rest] = events
  if (response.destroyed) return
  if (event === undefined) return done()
  const data = typeof event === "string" ? event : JSON.stringify(event)
  const name = typeof event === "object" && typeof event.type === "string" ? `event: ${event.type}\n` : ""
  response.write(`${name}data: ${data}\n\n`, () => {
    if (delay > 0) setTimeout(() => send(response, rest, delay, done), delay)
    else send(response, rest, delay, done)
  })
}
