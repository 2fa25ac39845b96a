/** A receiver of webhooks, which keeps a copy of the product by what comes. It shares nothing with who sends. */
import assert from 'node:assert/strict'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Json } from './client.ts'

export interface Delivery {
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: Json
  readonly atMs: number
}

/** What is done with a delivery. Whoever applies it and does not say so is sent it again. */
export interface Mood {
  readonly isApplied: boolean
  answer(response: ServerResponse): void
}

export const TAKEN: Mood = { isApplied: true, answer: (response) => response.writeHead(204).end() }

export const refusing = (status: number, headers: Record<string, string> = {}): Mood => ({
  isApplied: false,
  answer: (response) => response.writeHead(status, headers).end('no'),
})

export class Receiver {
  readonly deliveries: Delivery[] = []
  readonly rows = new Map<number, Json>()
  readonly epochs: number[] = []
  resets = 0
  doubles = 0
  /** Of what was not as it should be. */
  readonly faults: string[] = []
  mood: (delivery: Delivery) => Mood = () => TAKEN
  signingKey = ''
  #server: Server | null = null
  #port = 0
  readonly #seen = new Set<string>()
  #sequence = 0

  async listen(): Promise<void> {
    const server = createServer((request, response) => {
      let text = ''
      request.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      request.on('error', () => undefined)
      request.on('end', () => this.#hear({ headers: request.headers, text }, response))
    })
    this.#server = server
    await new Promise<void>((resolve) => server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (server.address() as AddressInfo).port
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = null
    server?.closeAllConnections()
    await new Promise((resolve) => (server === null ? resolve(null) : server.close(resolve)))
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/changes?by=test`
  }

  get ofRows(): readonly Delivery[] {
    return this.deliveries.filter(({ body }) => body.type === 'sluice.product.changes')
  }

  get state(): string {
    const rows = [...this.rows.values()].map(({ id, email, city }) => [id, email, city])
    return JSON.stringify(rows.toSorted((a, b) => a[0] - b[0]))
  }

  toString(): string {
    return `${this.deliveries.length} deliveries, ${this.resets} resets, epochs ${this.epochs.slice(-5)}, faults ${this.faults.slice(0, 3)}`
  }

  #hear({ headers, text }: Pick<Delivery, 'headers' | 'text'>, response: ServerResponse): void {
    try {
      this.#check(headers, text)
      const delivery = { headers, text, body: JSON.parse(text), atMs: performance.now() }
      this.deliveries.push(delivery)
      const mood = this.mood(delivery)
      if (mood.isApplied && delivery.body.type === 'sluice.product.changes') this.#apply(delivery)
      mood.answer(response)
    } catch (error) {
      this.faults.push(String(error))
      response.writeHead(500).end()
    }
  }

  #check(headers: IncomingHttpHeaders, text: string): void {
    const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = headers
    const secret = Buffer.from(this.signingKey.slice('whsec_'.length), 'base64')
    const expected = Buffer.from(`v1,${createHmac('sha256', secret).update(`${id}.${at}.${text}`).digest('base64')}`)
    const given = Buffer.from(String(signature))
    assert.ok(given.length === expected.length && timingSafeEqual(given, expected), `a bad signature of ${id}`)
    assert.ok(Math.abs(Date.now() / 1000 - Number(at)) < 300, `signed at ${at}`)
  }

  /** What he has had he drops, by the ids. */
  #apply({ headers, body }: Delivery): void {
    const id = String(headers['webhook-id'])
    if (this.#seen.has(id)) {
      this.doubles += 1
      return
    }
    this.#seen.add(id)
    if (body.sequence <= this.#sequence) this.faults.push(`${body.sequence} comes after ${this.#sequence}`)
    this.#sequence = body.sequence
    for (const { id: event, event: kind, data } of body.events) {
      if (this.#seen.has(event)) continue
      this.#seen.add(event)
      if (kind === 'reset') {
        this.resets += 1
        this.rows.clear()
      } else if (kind === 'epoch') this.epochs.push(data.epoch)
      else if (kind === 'upsert') this.rows.set(data.id, data)
      else this.rows.delete(data.id)
    }
  }
}
