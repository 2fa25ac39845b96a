/** The part of autocannon that is used here; the package brings no types. */
declare module 'autocannon' {
  interface Request {
    readonly path?: string
    readonly method?: string
    readonly body?: string
  }
  interface Options {
    readonly url: string
    readonly connections: number
    /** Seconds. */
    readonly duration?: number
    /** Of requests; in place of `duration`. */
    readonly amount?: number
    /** Seconds until a request is given up. */
    readonly timeout?: number
    readonly requests?: readonly (Request & { setupRequest(request: Request): Request })[]
    readonly headers?: Readonly<Record<string, string>>
  }
  interface Result {
    readonly requests: { readonly average: number; readonly total: number }
    /** Milliseconds. */
    readonly latency: { readonly p50: number; readonly p99: number }
    /** Seconds. */
    readonly duration: number
    readonly '2xx': number
    readonly non2xx: number
    readonly errors: number
  }
  export default function autocannon(options: Options): Promise<Result>
}
