/** The REST interface for a test: JSON in, JSON out, and errors that say what was asked. */
export class Api {
  readonly #url: string
  readonly #token: string

  constructor(url: string, token: string) {
    this.#url = url
    this.#token = token
  }

  get<T>(path: string): Promise<T> {
    return this.#send<T>(path, {})
  }

  post<T>(path: string, body?: unknown): Promise<T> {
    const json = { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
    return this.#send<T>(path, { method: 'POST', ...(body === undefined ? {} : json) })
  }

  upload(path: string, parts: Readonly<Record<string, string>>): Promise<unknown> {
    const form = new FormData()
    for (const [name, text] of Object.entries(parts)) form.append(name, new Blob([text]), `${name}.yaml`)
    return this.#send(path, { method: 'POST', body: form })
  }

  async delete(path: string): Promise<void> {
    await this.#text(path, { method: 'DELETE' })
  }

  text(path: string): Promise<string> {
    return this.#text(path, {})
  }

  /** The answer's status and JSON, whatever the status is. */
  async ask(path: string): Promise<{ readonly status: number; readonly body: unknown }> {
    const response = await fetch(`${this.#url}${path}`, { headers: { authorization: `Bearer ${this.#token}` } })
    return { status: response.status, body: await response.json() }
  }

  async #send<T>(path: string, init: RequestInit): Promise<T> {
    return JSON.parse(await this.#text(path, init)) as T
  }

  async #text(path: string, init: RequestInit): Promise<string> {
    const headers = { ...init.headers, authorization: `Bearer ${this.#token}` }
    const response = await fetch(`${this.#url}${path}`, { ...init, headers })
    const text = await response.text()
    if (!response.ok) throw new Error(`${init.method ?? 'GET'} ${path} → ${response.status} ${text}`)
    return text
  }
}
