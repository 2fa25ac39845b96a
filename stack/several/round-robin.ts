/**
 * One address before several servers. Each request goes to the next of them; one that refuses the connection, or says that
 * it is shutting down, has not accepted it, so the next one is asked, and that one rests for a while, as behind any
 * balancer: whoever connects in the very moment in which a server ends is reset by its kernel.
 */
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http'
import { pipeline } from 'node:stream'

const REST_MS = 1_000
/** Longer than any client pauses: none meets a connection that is being closed. */
const IDLE_MS = 120_000

interface Address {
  readonly host: string
  readonly port: number
}

export class RoundRobin {
  readonly url: string
  readonly #server: Server
  readonly #targets = new Map<string, Address>()
  /** How many requests each has answered. */
  readonly answered = new Map<string, number>()
  readonly #restsUntilMs = new Map<string, number>()
  #next = 0

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  static async listen(): Promise<RoundRobin> {
    const server = createServer({ keepAliveTimeout: IDLE_MS })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const front = new RoundRobin(server, `http://127.0.0.1:${port}`)
    // Whoever asked may be gone at any moment: that ends his answer, and nobody else's.
    server.on('request', (incoming, outgoing) => front.#forward(incoming, outgoing).catch(() => outgoing.destroy()))
    return front
  }

  add(name: string, address: Address): void {
    this.#restsUntilMs.delete(name)
    this.#targets.set(name, address)
  }

  remove(name: string): void {
    this.#targets.delete(name)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const told: string[] = []
    for (const [name, address] of this.#inTurn()) {
      const answer = await this.#ask(address, incoming, body)
      if (typeof answer === 'string') {
        told.push(`${name}: ${answer}`)
        if (answer !== 'refused') break
        this.#restsUntilMs.set(name, performance.now() + REST_MS)
        continue
      }
      this.answered.set(name, (this.answered.get(name) ?? 0) + 1)
      if (outgoing.destroyed) {
        answer.destroy()
        return
      }
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      // An answer that breaks off does so for the client, too, and one that nobody wants any more is not fetched.
      pipeline(answer, outgoing, () => undefined)
      return
    }
    const problem = { status: 502, code: 'bad_gateway', detail: told.join(', ') }
    outgoing.writeHead(502, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem))
  }

  /** Those that rest come last. */
  #inTurn(): readonly (readonly [string, Address])[] {
    const targets = [...this.#targets]
    this.#next = (this.#next + 1) % Math.max(1, targets.length)
    const rests = ([name]: readonly [string, Address]): boolean =>
      (this.#restsUntilMs.get(name) ?? 0) > performance.now()
    const turned = [...targets.slice(this.#next), ...targets.slice(0, this.#next)]
    return [...turned.filter((one) => !rests(one)), ...turned.filter(rests)]
  }

  #ask(
    { host, port }: Address,
    incoming: IncomingMessage,
    body: Buffer,
  ): Promise<IncomingMessage | 'refused' | `broken by ${string}`> {
    return new Promise((resolve) => {
      const asked: ClientRequest = request({
        host,
        port,
        method: incoming.method,
        path: incoming.url,
        headers: { ...incoming.headers, 'content-length': String(body.length) },
        agent: false,
      })
      asked.once('response', (answer) => resolve(isShuttingDown(answer) ? 'refused' : answer))
      asked.once('error', (error: NodeJS.ErrnoException) =>
        resolve(error.code === 'ECONNREFUSED' ? 'refused' : `broken by ${error.code ?? error.message}`),
      )
      asked.end(body)
    })
  }
}

/** Said before anything was done for the request. */
function isShuttingDown({ statusCode, headers }: IncomingMessage): boolean {
  return statusCode === 503 && headers['connection'] === 'close' && headers['retry-after'] === '5'
}
