/** An HTTP proxy in front of an object store that spoils requests on purpose. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * - `late`: the answer comes after its time.
 * - `lost`: the request is carried out, and the connection ends without an answer.
 * - `twice`: the request arrives twice; the second answer counts.
 * - `error`: 503, and nothing is carried out.
 * - `failed`: the request is carried out, and the answer is 500.
 * - `cut`: half of the answer's body, then the connection ends.
 * - `short`: half of the answer's body, as if that were all of it.
 * - `garbled`: the answer's body with its first byte changed.
 */
export const FAULTS = ['late', 'lost', 'twice', 'error', 'failed', 'cut', 'short', 'garbled'] as const
/** Besides those that a second try mends, `slow`: the answer's body comes in pieces, each long before its time. */
export type Fault = (typeof FAULTS)[number] | 'slow'

export interface FaultyProxy extends AsyncDisposable {
  readonly url: string
  /** Chooses what happens to a request; null: nothing. */
  spoil: (request: { readonly method: string; readonly url: string }) => Fault | null
  readonly seen: { readonly method: string; readonly url: string; readonly fault: Fault | null }[]
  /** Between the twelve pieces of a slow answer. */
  slowPieceMs: number
}

const LATE_MS = 1_500
const SLOW_PIECES = 12
const SLOW_PIECE_MS = 150

interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const upstream = new URL(target)
  const seen: FaultyProxy['seen'][number][] = []
  const proxy = { spoil: (() => null) as FaultyProxy['spoil'], slowPieceMs: SLOW_PIECE_MS }
  const server = http.createServer(async (request, response) => {
    const { method = 'GET', url = '/' } = request
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>))
    const fault = proxy.spoil({ method, url })
    seen.push({ method, url, fault })
    const carryOut = () => forward(upstream, request, body)
    await answerWith(fault, response, carryOut, proxy.slowPieceMs).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return Object.assign(proxy, {
    // The signature covers the host's name, so requests keep the one that they were signed for.
    url: `http://127.0.0.1:${port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  })
}

async function answerWith(
  fault: Fault | null,
  response: http.ServerResponse,
  carryOut: () => Promise<Answer>,
  slowPieceMs: number,
): Promise<void> {
  if (fault === 'error') return send(response, { status: 503, headers: {}, body: Buffer.alloc(0) })
  const first = await carryOut()
  if (fault === 'late') await sleep(LATE_MS)
  if (fault === 'lost') {
    response.destroy()
    return
  }
  if (fault === 'failed') return send(response, { status: 500, headers: {}, body: Buffer.alloc(0) })
  const answer = fault === 'twice' ? await carryOut() : first
  if (fault === 'slow') return sendSlowly(response, answer, slowPieceMs)
  const half = answer.body.subarray(0, Math.floor(answer.body.length / 2))
  if (fault === 'cut' && answer.body.length > 1) {
    response.writeHead(answer.status, answer.headers)
    response.write(half, () => response.destroy())
    return
  }
  if (fault === 'short' && answer.body.length > 1) {
    return send(response, { ...answer, headers: { ...answer.headers, 'content-length': `${half.length}` }, body: half })
  }
  if (fault === 'garbled' && answer.body.length > 0) answer.body[0] = (answer.body[0] as number) ^ 0xff
  send(response, answer)
}

async function sendSlowly(
  response: http.ServerResponse,
  { status, headers, body }: Answer,
  pieceMs: number,
): Promise<void> {
  response.writeHead(status, headers)
  const pieceBytes = Math.ceil(body.length / SLOW_PIECES)
  for (let at = 0; at < body.length && !response.destroyed; at += pieceBytes) {
    await sleep(pieceMs)
    response.write(body.subarray(at, at + pieceBytes))
  }
  response.end()
}

function send(response: http.ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, headers)
  response.end(body)
}

function forward(upstream: URL, request: http.IncomingMessage, body: Buffer): Promise<Answer> {
  const { method = 'GET', url: path = '/', headers } = request
  return new Promise((resolve, reject) => {
    const outgoing = http.request(
      { host: upstream.hostname, port: upstream.port, method, path, headers, agent: false },
      async (incoming) => {
        const chunks = await Array.fromAsync(incoming as AsyncIterable<Buffer>).catch(reject)
        if (!chunks) return
        const { 'transfer-encoding': _, ...kept } = incoming.headers
        resolve({ status: incoming.statusCode ?? 500, headers: kept, body: Buffer.concat(chunks) })
      },
    )
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}
