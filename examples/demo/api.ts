/** The runtime's HTTP interface, as far as the demos use it. */
import { strict as assert } from 'node:assert'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

// biome-ignore lint/suspicious/noExplicitAny: answers are checked where they are used
export type Json = Record<string, any>

export class Api {
  readonly #url: string
  readonly #token: string
  readonly #tenant: string | null

  /** `tenant` is for administrators, who have none of their own. */
  constructor(url: string, token: string, tenant: string | null = null) {
    this.#url = url
    this.#token = token
    this.#tenant = tenant
  }

  get(path: string): Promise<Json> {
    return this.#send(path, {})
  }

  post(path: string, body?: unknown): Promise<Json> {
    return this.#send(path, { method: 'POST', ...(body === undefined ? {} : json(body)) })
  }

  patch(path: string, body: unknown): Promise<Json> {
    return this.#send(path, { method: 'PATCH', ...json(body) })
  }

  async upload(path: string, folder: string): Promise<Json> {
    const form = new FormData()
    for (const part of ['product', 'inputs', 'output', 'quality', 'serving', 'compute']) {
      form.append(part, new Blob([await readFile(join(folder, `${part}.yaml`), 'utf8')]), `${part}.yaml`)
    }
    return this.#send(path, { method: 'POST', body: form })
  }

  async refused(path: string, status: number): Promise<Json> {
    const response = await fetch(`${this.#url}${path}`, { headers: { authorization: `Bearer ${this.#token}` } })
    assert.equal(response.status, status, `${path} should be refused with ${status}`)
    return (await response.json()) as Json
  }

  async #send(path: string, init: RequestInit): Promise<Json> {
    const tenant = this.#tenant === null ? {} : { 'x-tenant-id': this.#tenant }
    const headers = { ...init.headers, ...tenant, authorization: `Bearer ${this.#token}` }
    const response = await fetch(`${this.#url}${path}`, { ...init, headers })
    const answer = (await response.json()) as Json
    if (!response.ok) throw new Error(`${init.method ?? 'GET'} ${path} → ${response.status} ${JSON.stringify(answer)}`)
    return answer
  }
}

function json(body: unknown) {
  return { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
}

/** Registers a product and uploads the manifests of its folder. Returns its id. */
export async function upload(api: Api, namespace: string, name: string, archetype: string): Promise<string> {
  const product = await api.post('/api/v1/products', { name, namespace, archetype, description: '' })
  await api.upload(`/api/v1/products/${product['id']}/manifests`, join(import.meta.dirname, 'products', name))
  return product['id']
}

/** Version 1.0.0, which they describe; a dry run only says what it would do. */
export function deploy(api: Api, productId: string, isDryRun: boolean): Promise<Json> {
  return api.post(`/api/v1/products/${productId}/deploy`, { version: '1.0.0', dry_run: isDryRun })
}

/** Syncs a connection, and waits until that has succeeded. */
export async function sync(api: Api, connectionId: string): Promise<Json> {
  const started = await api.post(`/api/v1/connections/${connectionId}/sync`)
  for (;;) {
    const run = await api.get(`/api/v1/ingestion/${started['id']}`)
    if (run['state'] === 'succeeded') return run
    if (run['state'] !== 'queued' && run['state'] !== 'running')
      throw new Error(`the sync failed: ${JSON.stringify(run)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
