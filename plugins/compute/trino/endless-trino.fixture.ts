import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { TrinoClient } from '@sluice/analytics/trino/statements'

const COLUMNS = [{ name: 'n', typeSignature: { rawType: 'integer', arguments: [] } }]
const PLAN = JSON.stringify({ inputTableColumnInfos: [] })

/** Speaks the statement protocol: what is explained reads no table, and a query’s rows never end. */
export class EndlessTrino {
  readonly #server: Server
  cancelled = 0
  /** Before an explanation. */
  pauseMs = 0
  /** Whether rows come at all. */
  hasRows = true

  constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  async start(): Promise<TrinoClient> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return new TrinoClient({ url: this.#url, catalog: {} })
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  get #url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const sql = Buffer.concat(chunks).toString()
    if (request.method === 'DELETE') this.cancelled += 1
    const more = { id: 'q', nextUri: `${this.#url}/v1/statement/q/1` }
    if (sql.startsWith('EXPLAIN')) {
      await sleep(this.pauseMs)
      response.end(JSON.stringify({ id: 'e', columns: COLUMNS, data: [[PLAN]] }))
    } else if (sql === 'SELECT 1') response.end(JSON.stringify({ id: 's', columns: COLUMNS, data: [[1]] }))
    else if (this.hasRows) response.end(JSON.stringify({ ...more, columns: COLUMNS, data: [[1]] }))
    else if (request.method === 'POST') response.end(JSON.stringify(more))
    else if (request.method === 'DELETE') response.end()
  }
}
