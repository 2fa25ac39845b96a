/** The content of a file: unpacked where its name says that it is packed. */
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { isSluiceError } from '@sluice/sdk'
import { fileInvalid, stopIfAborted } from './failure.ts'
import type { OpenFile } from './file-store.ts'

/** Texts pack to a tenth; what grows beyond this is made to. */
const MAX_RATIO = 200
const FREE_BYTES = 64 * 1024 * 1024
const MAX_CONTENT_BYTES = 256 * 1024 ** 3

export async function* contentOf(file: OpenFile, path: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  if (!path.endsWith('.gz')) {
    yield* file.chunks(signal)
    return
  }
  let packed = 0
  const counted = async function* () {
    for await (const chunk of file.chunks(signal)) {
      packed += chunk.length
      yield chunk
    }
  }
  const gunzip = createGunzip({ chunkSize: 256 * 1024 })
  // Its failures come out of what is iterated.
  const done = new Promise<void>((resolve) => pipeline(Readable.from(counted()), gunzip, () => resolve()))
  let bytes = 0
  try {
    for await (const chunk of gunzip as AsyncIterable<Buffer>) {
      stopIfAborted(signal)
      bytes += chunk.length
      if (bytes > MAX_CONTENT_BYTES || (bytes > FREE_BYTES && bytes > packed * MAX_RATIO))
        throw fileInvalid(
          path,
          `it grows more than ${MAX_RATIO} times when it is unpacked, or beyond 256 GiB`,
          'Split it, or give it unpacked.',
        )
      yield chunk
    }
  } catch (error) {
    if (isSluiceError(error)) throw error
    throw fileInvalid(
      path,
      'it is no gzip, or cut off',
      'Write it anew under another name, and rename it once it is whole.',
      error,
    )
  } finally {
    gunzip.destroy()
    await done
  }
}
