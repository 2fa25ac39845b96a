/** A client as anybody could write it from the reference. */
import assert from 'node:assert/strict'

// biome-ignore lint/suspicious/noExplicitAny: answers are checked where they are used
export type Json = any

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Json
}

export class Client {
  readonly #url: string
  readonly #token: string | null

  constructor(url: string, token: string | null) {
    this.#url = url
    this.#token = token
  }

  /** For doors that are not HTTP. */
  get token(): string | null {
    return this.#token
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send(path, { headers })
  }

  post(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    if (body === undefined) return this.send(path, { method: 'POST', headers })
    const json = { 'content-type': 'application/json', ...headers }
    return this.send(path, { method: 'POST', body: JSON.stringify(body), headers: json })
  }

  upload(path: string, files: Readonly<Record<string, string>>, headers: Record<string, string> = {}): Promise<Answer> {
    const form = new FormData()
    for (const [name, text] of Object.entries(files)) form.append(name, new Blob([text]), `${name}.yaml`)
    return this.send(path, { method: 'POST', body: form, headers })
  }

  /** The head of an answer that may have no end. */
  begin(path: string, headers: Record<string, string>, signal: AbortSignal, init: RequestInit = {}): Promise<Response> {
    const authorization = this.#token === null ? {} : { authorization: `Bearer ${this.#token}` }
    return fetch(`${this.#url}${path}`, { ...init, headers: { ...authorization, ...headers }, signal })
  }

  /** An answer as it was written: digits that no JavaScript number has are still there. */
  async text(path: string, init: RequestInit = {}) {
    const authorization = this.#token === null ? {} : { authorization: `Bearer ${this.#token}` }
    const response = await fetch(`${this.#url}${path}`, { ...init, headers: { ...authorization, ...init.headers } })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  async send(path: string, init: RequestInit): Promise<Answer> {
    const response = await this.text(path, init)
    const { text } = response
    const isJson = /^application\/(problem\+)?json\b/.test(response.headers.get('content-type') ?? '')
    return { status: response.status, headers: response.headers, body: isJson && text !== '' ? JSON.parse(text) : text }
  }

  async untilEnded(runId: string): Promise<Json> {
    for (;;) {
      const { body } = await this.get(`/api/v1/ingestion/${runId}`)
      if (body.state !== 'queued' && body.state !== 'running') return body
      await new Promise((resolve) => setTimeout(resolve, 150))
    }
  }
}

/** The body of an answer that says that it was done. */
export async function ok(answer: Promise<Answer>): Promise<Json> {
  const { status, body } = await answer
  assert.ok(status < 300, JSON.stringify(body))
  return body
}

export function manifests(table: string, extra: { readonly columns?: string; readonly endpoints?: string } = {}) {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  const columns =
    extra.columns ??
    '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: email, type: string, classification: pii.identifier }\n  - { name: city, type: string }\n'
  const endpoints =
    extra.endpoints ?? '  - type: lookup\n    config: { index_columns: [id, city] }\n  - type: analytics\n'
  return {
    product: `${head('Product')}name: people\nnamespace: crm\narchetype: source_aligned\n`,
    inputs: `${head('Inputs')}inputs:\n  - { name: source, connection: db, table: ${table}, mode: full }\n`,
    output: `${head('Output')}format: iceberg\nschema:\n${columns}write_mode: replace\n`,
    quality: `${head('Quality')}checks:\n  - name: id_unique\n    unique: [id]\n`,
    serving: `${head('Serving')}endpoints:\n${endpoints}`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n`,
  }
}
