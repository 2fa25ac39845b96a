/** Requests and answers as they are on the wire: what a client would unpack, follow or hide is to be compared, too. */
import { Agent, request } from 'node:http'
import { constants, gunzipSync, gzipSync } from 'node:zlib'
import type { Heard } from './comparison.ts'

export interface Sent {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

const agent = new Agent({ keepAlive: true })

/**
 * Of a compressed answer how much longer it is than its text makes it stands among the headers.
 * @param isEnough of an answer that does not end by itself, what has come of it
 */
export async function exchange(
  url: string,
  token: string,
  { method, path, headers, body }: Sent,
  isEnough: (text: string) => boolean = () => false,
): Promise<Heard> {
  const answer = await new Promise<Heard & { readonly bytes: Buffer }>((resolve, reject) => {
    const all = { authorization: `Bearer ${token}`, ...headers }
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const sent = request(new URL(url).origin, { agent, method, path, headers: { ...all, ...length } }, (response) => {
      const chunks: Buffer[] = []
      const settle = () => {
        const told = Object.entries(response.headers).map(([name, value]) => [name, String(value)])
        resolve({
          status: response.statusCode ?? 0,
          headers: Object.fromEntries(told),
          text: '',
          bytes: Buffer.concat(chunks),
        })
      }
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        if (!isEnough(Buffer.concat(chunks).toString('latin1'))) return
        settle()
        sent.destroy()
      })
      response.on('error', reject)
      response.on('end', settle)
    })
    sent.on('error', reject)
    sent.end(body)
  })
  const { status, headers: heard, bytes } = answer
  if (heard['content-encoding'] !== 'gzip' || bytes.length === 0) {
    return { status, headers: heard, text: bytes.toString('latin1') }
  }
  const plain = gunzipSync(bytes)
  const excess = bytes.length - gzipSync(plain, { level: constants.Z_BEST_SPEED }).length
  return { status, headers: { ...heard, 'compressed-excess': String(excess) }, text: plain.toString('latin1') }
}

/** Files as a form has them. */
export async function formOf(files: Readonly<Record<string, string>>): Promise<Pick<Sent, 'headers' | 'body'>> {
  const form = new FormData()
  for (const [name, text] of Object.entries(files)) form.append(name, new Blob([text]), `${name}.yaml`)
  const encoded = new Response(form)
  const type = encoded.headers.get('content-type') ?? ''
  return { headers: { 'content-type': type }, body: new Uint8Array(await encoded.arrayBuffer()) }
}
