import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** A list of a thousand keys of full length, and more than any other document; its parser takes about a second for it. */
export const MAX_DOCUMENT_BYTES = 2 * 1024 * 1024

/** What of a request says whether its answer is an object. */
export interface Asked {
  readonly method?: string | undefined
  readonly path?: string | null | undefined
}

/**
 * The driver collects whatever comes before it looks at it: lists, errors, what is told of an upload. Such documents are
 * cut off at their bound; the bytes of an object are for whoever asked for it to bound.
 */
export function boundedAnswer(asked: Asked, answer: IncomingMessage): IncomingMessage {
  if (isObject(asked, answer)) return answer
  const { headers, statusCode, statusMessage } = answer
  const body = Readable.from(bounded(answer), { objectMode: false })
  // A request that is given up in the middle ends its answer, which nobody may be reading any more.
  return Object.assign(body.on('error', ignore), { headers, statusCode, statusMessage }) as unknown as IncomingMessage
}

function isObject({ method, path }: Asked, { statusCode }: IncomingMessage): boolean {
  return method === 'GET' && path !== '/' && path?.includes('?') !== true && (statusCode === 200 || statusCode === 206)
}

async function* bounded(answer: IncomingMessage): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > MAX_DOCUMENT_BYTES) throw new Error('a document of the object store is larger than it may be')
    yield chunk
  }
}

/** What an object's answer announces is all that it can bring; one that announces nothing could have no end. */
export function announcedBytes(answer: IncomingMessage): number {
  const announced = answer.headers['content-length'] ?? ''
  if (/^\d{1,15}$/.test(announced)) return Number(announced)
  answer.destroy()
  throw new Error('an answer of the object store does not say how long it is')
}

function ignore(): void {}
