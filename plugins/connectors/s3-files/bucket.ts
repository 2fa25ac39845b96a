/** A bucket of S3 as a place of files. An object is read only with the etag by which it was listed. */
import type { IncomingMessage } from 'node:http'
import { type CheckStep, isSluiceError, type NetworkPolicy } from '@sluice/sdk'
import type { BucketItem } from 'minio'
import { fileChanged, stopIfAborted, tooMany } from '../files/failure.ts'
import type { FileStore, OpenFile, SourceFile } from '../files/file-store.ts'
import type { Glob } from '../files/glob.ts'
import { clientOf, type S3Reader } from './client.ts'
import { bucketFailure, isMissing, stepOf } from './failure.ts'
import { hostOf, reach } from './reach.ts'
import type { BucketPlace } from './settings.ts'

const MAX_ENTRIES = 200_000
const MAX_FILES = 50_000
const PAGE = 1000

export class Bucket implements FileStore {
  readonly openedAtOnce = 4
  readonly #place: BucketPlace
  readonly #network: NetworkPolicy

  constructor(place: BucketPlace, network: NetworkPolicy) {
    this.#place = place
    this.#network = network
  }

  async check(signal: AbortSignal): Promise<readonly CheckStep[]> {
    const steps = await reach(this.#place, this.#network, signal)
    if (steps.some(({ ok }) => !ok)) return steps
    try {
      const { bucket, prefix } = this.#place
      await (await this.#client(signal)).listObjectsV2Query(bucket, prefix, '', '', 1, '')
      return [
        ...steps,
        { name: 'auth', ok: true, message: 'the access key is accepted' },
        { name: 'privileges', ok: true, message: 'the bucket can be listed' },
      ]
    } catch (error) {
      stopIfAborted(signal)
      const failure = bucketFailure(error)
      const name = stepOf(error)
      const before: readonly CheckStep[] =
        name === 'privileges' ? [{ name: 'auth', ok: true, message: 'the access key is accepted' }] : []
      return [
        ...steps,
        ...before,
        { name, ok: false, message: failure.message, remedy: failure.remedy ?? 'Correct the settings.' },
      ]
    }
  }

  async folders(signal: AbortSignal): Promise<readonly string[]> {
    const { prefix } = this.#place
    const found: string[] = []
    for await (const { prefix: folder } of this.#entries(prefix, '/', signal)) {
      const name = folder?.slice(prefix.length, -1) ?? ''
      if (name !== '' && !name.startsWith('.')) found.push(name)
    }
    return found.sort()
  }

  async list(glob: Glob, signal: AbortSignal): Promise<readonly SourceFile[]> {
    const { prefix } = this.#place
    const found: SourceFile[] = []
    const within = glob.prefix === '' ? prefix : `${prefix}${glob.prefix}/`
    for await (const entry of this.#entries(within, '', signal)) {
      const path = entry.name?.slice(prefix.length)
      if (path === undefined || !glob.matches(path)) continue
      found.push(fileOf(path, entry))
      if (found.length > MAX_FILES)
        throw tooMany('the glob matches too many files', `Let it match at most ${MAX_FILES}, or move old files away.`)
    }
    return found.sort((left, right) => (left.path < right.path ? -1 : 1))
  }

  /** By a list, which tells times more exactly than an object itself does. */
  async find(path: string, signal: AbortSignal): Promise<SourceFile | null> {
    const key = this.#place.prefix + path
    for await (const found of this.#entries(key, '', signal)) return found.name === key ? fileOf(path, found) : null
    return null
  }

  /** What the server sends is of one object, also where another takes its place meanwhile. */
  async open(file: SourceFile, signal: AbortSignal): Promise<OpenFile> {
    const whole = await this.#answer(file, null, signal)
    return {
      chunks: (until) => bytesOf(whole, file, file.bytes, until),
      read: async (from, length, until) => {
        // Whoever reads by places does not go on with the whole.
        whole.destroy()
        if (length === 0) return Buffer.alloc(0)
        const part = await this.#answer(file, { from, length }, until)
        return Buffer.concat(await Array.fromAsync(bytesOf(part, file, length, until)), length)
      },
      close: async () => {
        whole.destroy()
      },
    }
  }

  /** Throws TRANSIENT `source_file_changed` where the object is not the one that was listed. */
  async #answer(
    { path, bytes, version }: SourceFile,
    part: Part | null,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const { bucket, prefix } = this.#place
    const key = prefix + path
    let answer: IncomingMessage
    try {
      const client = await this.#client(signal)
      const asked =
        part === null ? client.getObject(bucket, key) : client.getPartialObject(bucket, key, part.from, part.length)
      answer = (await asked) as IncomingMessage
    } catch (error) {
      stopIfAborted(signal)
      throw isMissing(error) ? fileChanged(path, error) : bucketFailure(error)
    }
    // Told where it is read; until then nobody listens.
    answer.on('error', () => undefined)
    if (version.startsWith(contentMark(bytes, answer.headers.etag))) return answer
    answer.destroy()
    throw fileChanged(path)
  }

  async *#entries(prefix: string, delimiter: string, signal: AbortSignal) {
    let [after, left] = ['', MAX_ENTRIES]
    for (;;) {
      stopIfAborted(signal)
      let page: Awaited<ReturnType<S3Reader['listObjectsV2Query']>>
      try {
        page = await (await this.#client(signal)).listObjectsV2Query(
          this.#place.bucket,
          prefix,
          after,
          delimiter,
          PAGE,
          '',
        )
      } catch (error) {
        stopIfAborted(signal)
        throw bucketFailure(error)
      }
      left -= page.objects.length
      if (left < 0) throw tooMany('there are too many objects', `Let the glob look at at most ${MAX_ENTRIES}.`)
      yield* page.objects
      if (!page.isTruncated) return
      after = page.nextContinuationToken
    }
  }

  /** Where the address may not be reached that is told here; the driver would say that there is no answer. */
  async #client(signal: AbortSignal): Promise<S3Reader> {
    await this.#network.resolve(hostOf(this.#place), this.#place.port, signal)
    return clientOf(this.#place, this.#network, signal)
  }
}

type Listed = Pick<BucketItem, 'etag' | 'size' | 'lastModified'>

/** Of an object that is put anew with what it had the time tells that it was. */
function fileOf(path: string, { etag, size = 0, lastModified }: Listed): SourceFile {
  return { path, bytes: size, version: `${contentMark(size, etag)}${lastModified?.toISOString() ?? ''}` }
}

const contentMark = (bytes: number, etag = '') => `${bytes}.${etag.replaceAll('"', '')}@`

interface Part {
  readonly from: number
  readonly length: number
}

/** As many as were asked for. */
async function* bytesOf(
  answer: IncomingMessage,
  { path }: SourceFile,
  expected: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  try {
    for await (const chunk of answer as AsyncIterable<Uint8Array>) {
      stopIfAborted(signal)
      bytes += chunk.length
      if (bytes > expected) throw fileChanged(path)
      yield chunk
    }
  } catch (error) {
    stopIfAborted(signal)
    throw isSluiceError(error) ? error : bucketFailure(error)
  }
  if (bytes !== expected) throw fileChanged(path)
}
