/** A way to one server over TCP that can be cut: what is sent meanwhile arrives nowhere, and nobody is told. */
import { connect, createServer, type Server, type Socket } from 'node:net'

export class TcpProxy {
  /** Where the server listens; another one after it was started anew. */
  target: number
  readonly port: number
  readonly #server: Server
  /** Both ends of each connection; those that came while it was cut have one. */
  readonly #ends = new Set<Socket>()
  #isCut = false

  private constructor(server: Server, port: number, target: number) {
    this.#server = server
    this.port = port
    this.target = target
  }

  static async listen(target: number): Promise<TcpProxy> {
    const server = createServer({ allowHalfOpen: true })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const proxy = new TcpProxy(server, (server.address() as { port: number }).port, target)
    server.on('connection', (client) => proxy.#accept(client))
    return proxy
  }

  /** Nothing passes any more, in connections that are there and in new ones. */
  cut(): void {
    this.#isCut = true
    for (const end of this.#ends) {
      end.unpipe()
      end.pause()
    }
  }

  /** As routers do that have forgotten a connection: those that were cut are reset, and new ones pass. */
  heal(): void {
    this.#isCut = false
    for (const end of this.#ends) end.resetAndDestroy()
  }

  async close(): Promise<void> {
    for (const end of this.#ends) end.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #accept(client: Socket): void {
    this.#hold(client)
    if (this.#isCut) return void client.pause()
    const server = connect({ host: '127.0.0.1', port: this.target, allowHalfOpen: true })
    this.#hold(server)
    client.pipe(server)
    server.pipe(client)
    for (const [end, other] of [
      [client, server],
      [server, client],
    ] as const)
      end.once('close', () => other.destroy())
  }

  #hold(end: Socket): void {
    this.#ends.add(end)
    end.on('error', () => end.destroy())
    end.once('close', () => this.#ends.delete(end))
  }
}
