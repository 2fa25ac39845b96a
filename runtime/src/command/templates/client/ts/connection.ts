import { type CallOptions, type Json, SluiceError, type SluiceOptions } from './values.ts'

export type Body = { readonly [name: string]: unknown }

/** A request on its way, with its deadline. `close` is called at its end. */
export interface Sent {
  readonly response: Response
  /** What came is taken for a sign of life: the deadline begins anew. */
  readonly touch: () => void
  /** The error as whoever called is to see it. */
  readonly explain: (error: unknown) => unknown
  readonly close: () => void
}

/** The way to one server. */
export class SluiceConnection {
  readonly #options: SluiceOptions
  readonly #url: string

  constructor(options: SluiceOptions) {
    this.#options = options
    this.#url = new URL(options.url).href.replace(/\/+$/, '')
  }

  /** @param product namespace and name */
  pathOf(product: string): string {
    return `/api/v1/products/${encodeURIComponent(product)}`
  }

  get hasFreshTokens(): boolean {
    return typeof this.#options.token === 'function'
  }

  async json<T>(method: string, path: string, body: Body | null, options: CallOptions): Promise<T> {
    const sent = await this.open(method, path, { accept: 'application/json' }, body, options)
    try {
      const text = await sent.response.text()
      try {
        return JSON.parse(text) as T
      } catch (cause) {
        throw new SluiceError(sent.response.status, {}, null, cause)
      }
    } catch (error) {
      throw sent.explain(error)
    } finally {
      sent.close()
    }
  }

  async bytes(path: string, body: Body, accept: string, options: CallOptions): Promise<ArrayBuffer> {
    const sent = await this.open('POST', path, { accept }, body, options)
    try {
      return await sent.response.arrayBuffer()
    } catch (error) {
      throw sent.explain(error)
    } finally {
      sent.close()
    }
  }

  /** Texts as they come; whoever stops reading ends the request. */
  async *texts(sent: Sent): AsyncGenerator<string, void, undefined> {
    const reader = sent.response.body?.getReader()
    const decoder = new TextDecoder()
    try {
      for (;;) {
        const part = await reader?.read()
        sent.touch()
        if (part === undefined || part.done) return
        yield decoder.decode(part.value, { stream: true })
      }
    } catch (error) {
      throw sent.explain(error)
    } finally {
      sent.close()
    }
  }

  /** The head of an answer that is a good one. Throws SluiceError, or the signal's reason. */
  async open(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: Body | null,
    { signal, timeoutMs = this.#options.timeoutMs ?? 30_000 }: CallOptions,
  ): Promise<Sent> {
    const ended = new AbortController()
    const onAbort = (): void => ended.abort()
    let isLate = false
    const late = (): void => {
      isLate = true
      ended.abort()
    }
    let timer = setTimeout(late, timeoutMs)
    const close = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      ended.abort()
    }
    const touch = (): void => {
      clearTimeout(timer)
      timer = setTimeout(late, timeoutMs)
    }
    const explain = (error: unknown): unknown => {
      if (signal?.aborted) return signal.reason
      if (error instanceof SluiceError) return error
      const [code, detail] = isLate
        ? ['timed_out', `there was no answer within ${timeoutMs} ms`]
        : ['unreachable', 'the server cannot be reached, or broke its answer off']
      return new SluiceError(0, { code, detail }, null, error)
    }
    try {
      signal?.throwIfAborted()
      signal?.addEventListener('abort', onAbort)
      const { token, tenant, fetch: ask = fetch } = this.#options
      const bearer = typeof token === 'string' ? token : await token()
      const response = await ask(`${this.#url}${path}`, {
        method,
        // A token is for this server alone.
        redirect: 'error',
        signal: ended.signal,
        headers: {
          ...headers,
          authorization: `Bearer ${bearer}`,
          ...(tenant === undefined ? {} : { 'x-tenant-id': tenant }),
          ...(body === null ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === null ? {} : { body: bodyText(body) }),
      })
      if (!response.ok) throw await refusalOf(response)
      return { response, touch, explain, close }
    } catch (error) {
      const explained = explain(error)
      close()
      throw explained
    }
  }
}

/** JSON has no numbers as long as these. */
function bodyText(body: Body): string {
  return JSON.stringify(body, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}

async function refusalOf(response: Response): Promise<SluiceError> {
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null
  const text = await response.text()
  try {
    const problem = JSON.parse(text) as unknown
    if (isObject(problem)) return new SluiceError(response.status, problem, retryAfterMs)
  } catch {
    // A page of something that stands between.
  }
  return new SluiceError(response.status, {}, retryAfterMs)
}

function isObject(value: unknown): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
