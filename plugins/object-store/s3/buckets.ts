import { createHash, randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  type BucketGetOptions,
  type BucketPutOptions,
  type Buckets,
  type CopyTarget,
  isObjectPath,
  type LentAccess,
  SluiceError,
  type StoredObject,
} from '@sluice/sdk'
import { announcedBytes } from './bounded-answers.ts'
import { openLentAccess } from './lent-access.ts'
import {
  type Attempt,
  insist,
  isOfOthers,
  isVerdict,
  objectExists,
  openClient,
  type S3Settings,
  unavailable,
} from './requests.ts'

export interface S3BucketsOptions extends S3Settings {
  /** Larger files are sent in parts of this size. At least 5 MiB, as S3 asks. */
  readonly partBytes?: number
}

const DEFAULT_PART_BYTES = 16 * 1024 * 1024
const PAGE = 1_000
/** Looked for where the store is asked whether it answers; it need not be there. */
const ASKED_FOR = 'sluice-readiness'
const PING_MS = 3_000
/** Tells a request that arrived twice from somebody else's, and what was read from what was written. */
const WRITE_ID = 'x-amz-meta-sluice-write'
const SHA256 = 'x-amz-meta-sluice-sha256'

/**
 * An S3-compatible object store; a bucket is a bucket there. Every write is proved: the server compares each part with
 * its MD5, and the object's length is asked for afterwards. Reads are compared with the SHA-256 that was written. One
 * class, for how a place is addressed, an attempt is repeated and a write proved to be this one is the same in all that
 * it does.
 */
export class S3Buckets implements Buckets {
  /** With buckets in the path alone: what clients ask leave for names the bucket there. */
  readonly lend?: () => Promise<LentAccess>
  readonly #options: S3BucketsOptions
  readonly #s3: ReturnType<typeof openClient>
  /** Stores differ: false once this one has said that it takes no conditional writes. */
  #isConditional = true

  constructor(options: S3BucketsOptions) {
    this.#options = options
    this.#s3 = openClient(options)
    if (options.pathStyle) this.lend = () => openLentAccess(options)
  }

  async ensureBucket(bucket: string): Promise<void> {
    const { client } = this.#s3
    await this.#insist(bucket, async () => {
      if (await client.bucketExists(bucket)) return
      await client.makeBucket(bucket, this.#options.region).catch(async (error: unknown) => {
        // Made by another runtime, or by an attempt of ours whose answer was lost.
        if (!(await client.bucketExists(bucket))) throw error
      })
    })
  }

  async buckets(): Promise<readonly string[]> {
    try {
      return (await this.#insist('', () => this.#s3.client.listBuckets())).map(({ name }) => name)
    } catch (error) {
      // A login for single buckets may not list them all.
      if (error instanceof SluiceError && (error.kind === 'CONFIG' || error.kind === 'UNSUPPORTED')) return []
      throw error
    }
  }

  async dropBucket(bucket: string): Promise<void> {
    const { client } = this.#s3
    if (!(await this.#insist(bucket, () => client.bucketExists(bucket)))) return
    await this.#insist(bucket, async () => {
      await client.removeBucket(bucket).catch(async (error: unknown) => {
        if (await client.bucketExists(bucket)) throw error
      })
    })
  }

  async put(
    path: string,
    body: Uint8Array | AsyncIterable<Uint8Array>,
    options: BucketPutOptions = {},
  ): Promise<StoredObject> {
    this.#place(path)
    const parts = chunksOf(body, this.#options.partBytes ?? DEFAULT_PART_BYTES)
    const first = await parts.next()
    const second = first.done === true ? first : await parts.next()
    const head = first.done === true ? Buffer.alloc(0) : first.value
    if (second.done === true) {
      if (options.sizeBytes !== undefined && head.length !== options.sizeBytes) throw truncated(path)
      return this.#putWhole(path, head, options)
    }
    const known = body instanceof Uint8Array ? { sha256: hex(body) } : {}
    return this.#putParts(path, resumed([head, second.value], parts), { ...known, ...options })
  }

  async get(path: string, options: BucketGetOptions): Promise<Uint8Array> {
    options.signal?.throwIfAborted()
    const { bucketName, objectName } = this.#place(path)
    let isShort = false
    let shortSize: number | null = null
    try {
      return await this.#insist(
        path,
        async () => {
          isShort = false
          const response = await this.#s3.client.makeRequestAsync({ method: 'GET', bucketName, objectName })
          const size = announcedBytes(response)
          if (size > options.maxBytes) throw tooLarge(response, path)
          isShort = options.sizeBytes !== undefined && size !== options.sizeBytes
          const chunks: Buffer[] = []
          for await (const chunk of response) chunks.push(chunk as Buffer)
          const whole = Buffer.concat(chunks)
          isShort ||= whole.length !== size
          // Of another length twice over, it is the object and not the way here.
          if (isShort && shortSize === whole.length) throw truncated(path)
          shortSize = whole.length
          if (isShort) throw new Error(`${whole.length} bytes came of ${options.sizeBytes ?? size}`)
          const sha256 = response.headers[SHA256]
          if (sha256 !== undefined && sha256 !== hex(whole)) throw new Error('other bytes came than were written')
          return whole
        },
        options.signal,
      )
    } catch (error) {
      throw isShort && error instanceof SluiceError && error.kind === 'TRANSIENT' ? truncated(path) : error
    }
  }

  copy(path: string, target: CopyTarget, signal: AbortSignal): Promise<void> {
    return this.#insist(path, (attempt) => this.#continue(path, target, attempt), signal)
  }

  async stat(path: string): Promise<StoredObject | null> {
    return (await this.#head(path))?.stat ?? null
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<StoredObject> {
    const [bucket, ...rest] = prefix.replace(/\/$/, '').split('/')
    if (bucket === undefined || bucket === '') throw storeError('object_path_invalid', 'needs a bucket', prefix)
    const key = rest.length === 0 ? '' : `${rest.join('/')}/`
    let token = ''
    do {
      const page = await this.#page(bucket, key, token, signal)
      for (const item of page?.objects ?? []) {
        if (item.name === undefined || !isObjectPath(`${bucket}/${item.name}`)) continue
        const modifiedAt = new Date(item.lastModified as unknown as string | Date)
        yield { path: `${bucket}/${item.name}`, sizeBytes: Number(item.size), modifiedAt }
      }
      const next = page?.isTruncated === true ? page.nextContinuationToken : ''
      if (next !== '' && next === token) throw unavailable(new Error('a page of a list names itself as the next'))
      token = next
    } while (token !== '')
  }

  async remove(path: string): Promise<void> {
    const { bucketName, objectName } = this.#place(path)
    await this.#insist(path, () => this.#s3.client.removeObject(bucketName, objectName)).catch(unlessMissing)
  }

  uri(path: string): string {
    this.#checked(path)
    return `s3://${path}`
  }

  pathOf(uri: string): string | null {
    const path = uri.startsWith('s3://') ? uri.slice('s3://'.length) : ''
    return isObjectPath(path) ? path : null
  }

  /** That there is no such bucket, or that it is another's, is an answer. */
  async ping(signal: AbortSignal): Promise<void> {
    const { client } = this.#s3
    await insist(
      { deadlineMs: PING_MS, attemptMs: PING_MS },
      ASKED_FOR,
      () =>
        client.listObjectsV2Query(ASKED_FOR, '', '', '', 1, '').catch((error: unknown) => {
          if (!isVerdict(error, 'missing') && !isOfOthers(error)) throw error
        }),
      signal,
    )
  }

  async close(): Promise<void> {
    this.#s3.close()
  }

  async #putWhole(path: string, body: Buffer, options: BucketPutOptions): Promise<StoredObject> {
    const { bucketName, objectName } = this.#place(path)
    const writeId = randomUUID()
    const headers = {
      'content-md5': createHash('md5').update(body).digest('base64'),
      [WRITE_ID]: writeId,
      [SHA256]: options.sha256 ?? hex(body),
    }
    const put = async (condition: Readonly<Record<string, string>>) => {
      const response = await this.#s3.client.makeRequestAsync(
        { method: 'PUT', bucketName, objectName, headers: { ...headers, ...condition } },
        body,
      )
      for await (const _ of response);
    }
    await this.#insist(
      path,
      async () => {
        if (options.ifAbsent !== true) return put({})
        try {
          if (this.#isConditional) return await put({ 'if-none-match': '*' })
        } catch (error) {
          if (isVerdict(error, 'unsupported')) this.#isConditional = false
          else if (!isVerdict(error, 'exists')) throw error
        }
        const there = await this.#headOnce(path)
        if (there !== null && there.writeId !== writeId) throw objectExists(new Error(path))
        if (there === null) return put({})
      },
      options.signal,
    )
    return this.#proved(path, body.length, writeId)
  }

  async #putParts(path: string, parts: AsyncIterable<Buffer>, options: BucketPutOptions): Promise<StoredObject> {
    const { client } = this.#s3
    const { bucketName, objectName } = this.#place(path)
    if (options.ifAbsent === true && (await this.stat(path)) !== null) throw objectExists(new Error(path))
    const writeId = randomUUID()
    const headers = { [WRITE_ID]: writeId, ...(options.sha256 === undefined ? {} : { [SHA256]: options.sha256 }) }
    const uploadId = await this.#insist(path, () => client.initiateNewMultipartUpload(bucketName, objectName, headers))
    try {
      const etags: { part: number; etag: string }[] = []
      let sent = 0
      for await (const body of parts) {
        options.signal?.throwIfAborted()
        const part = etags.length + 1
        etags.push({ part, etag: await this.#putPart(path, body, uploadId, part, options.signal) })
        sent += body.length
      }
      if (options.sizeBytes !== undefined && sent !== options.sizeBytes) throw truncated(path)
      await this.#complete(path, uploadId, etags, writeId, options.ifAbsent === true)
      return await this.#proved(path, sent, writeId)
    } catch (error) {
      // The first error tells more; parts of an upload that was not completed are no object.
      await client.abortMultipartUpload(bucketName, objectName, uploadId).catch(() => undefined)
      throw error
    }
  }

  /** A part that arrives twice takes its own place. */
  #putPart(path: string, body: Buffer, uploadId: string, part: number, signal?: AbortSignal): Promise<string> {
    const { bucketName, objectName } = this.#place(path)
    const query = `partNumber=${part}&uploadId=${encodeURIComponent(uploadId)}`
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
    return this.#insist(
      path,
      async () => {
        const response = await this.#s3.client.makeRequestAsync(
          { method: 'PUT', bucketName, objectName, query, headers },
          body,
        )
        for await (const _ of response);
        return String(response.headers['etag'] ?? '').replaceAll('"', '')
      },
      signal,
    )
  }

  async #complete(
    path: string,
    uploadId: string,
    etags: { part: number; etag: string }[],
    writeId: string,
    ifAbsent: boolean,
  ): Promise<void> {
    const { bucketName, objectName } = this.#place(path)
    await this.#insist(path, async ({ number }) => {
      const there = number > 0 || ifAbsent ? await this.#headOnce(path) : null
      if (there?.writeId === writeId) return
      if (there !== null && ifAbsent) throw objectExists(new Error(path))
      await this.#s3.client.completeMultipartUpload(bucketName, objectName, uploadId, etags)
    })
  }

  /** Asks the store what it has now. A file that is there in another length was not written. */
  async #proved(path: string, sizeBytes: number, writeId: string): Promise<StoredObject> {
    const there = await this.#head(path)
    if (there?.stat.sizeBytes === sizeBytes && (there.writeId === null || there.writeId === writeId)) return there.stat
    throw truncated(path)
  }

  #head(path: string): Promise<Head | null> {
    return this.#insist(path, () => this.#headOnce(path))
  }

  /** One request, for use among others that are tried again together. */
  async #headOnce(path: string): Promise<Head | null> {
    const { bucketName, objectName } = this.#place(path)
    try {
      const found = await this.#s3.client.statObject(bucketName, objectName)
      const writeId = (found.metaData as Readonly<Record<string, string>>)[WRITE_ID.slice('x-amz-meta-'.length)]
      const stat = { path, sizeBytes: found.size, modifiedAt: new Date(found.lastModified) }
      return { stat, writeId: writeId ?? null }
    } catch (error) {
      if (isVerdict(error, 'missing')) return null
      throw error
    }
  }

  async #page(bucket: string, prefix: string, token: string, signal: AbortSignal | undefined) {
    try {
      return await this.#insist(
        bucket,
        () => this.#s3.client.listObjectsV2Query(bucket, prefix, token, '', PAGE, ''),
        signal,
      )
    } catch (error) {
      unlessMissing(error)
      return null
    }
  }

  /** Fetches what is missing of the object. Objects never change, so that parts of several answers are of the same one. */
  async #continue(path: string, target: CopyTarget, { signal, advanced }: Attempt): Promise<void> {
    const { bucketName, objectName } = this.#place(path)
    const from = target.receivedBytes
    const headers = from === 0 ? {} : { range: `bytes=${from}-` }
    const request = { method: 'GET', bucketName, objectName, headers }
    const response = await this.#s3.client.makeRequestAsync(request, '', [200, 206]).catch((error: unknown) => {
      // The way here broke behind the last byte, or the object is not what the first bytes were of.
      if (isVerdict(error, 'beyond')) target.restart()
      throw error
    })
    signal.throwIfAborted()
    if (response.statusCode === 200) target.restart()
    const sizeBytes = target.receivedBytes + announcedBytes(response)
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      signal.throwIfAborted()
      if (await target.take(chunk)) advanced()
      if (target.failure !== null) return
    }
    if (target.receivedBytes !== sizeBytes) throw new Error(`${target.receivedBytes} bytes came of ${sizeBytes}`)
    const sha256 = response.headers[SHA256]
    if (sha256 === undefined || sha256 === target.sha256) return
    target.restart()
    throw new Error('other bytes came than were written')
  }

  #insist<Result>(path: string, work: (attempt: Attempt) => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    return insist(this.#options, path, work, signal)
  }

  #checked(path: string): string {
    if (isObjectPath(path)) return path
    throw storeError('object_path_invalid', 'has a path that cannot be used', path)
  }

  #place(path: string): { readonly bucketName: string; readonly objectName: string } {
    const [bucketName = '', ...key] = this.#checked(path).split('/')
    if (key.length === 0) throw storeError('object_path_invalid', 'has a path that cannot be used', path)
    return { bucketName, objectName: key.join('/') }
  }
}

interface Head {
  readonly stat: StoredObject
  readonly writeId: string | null
}

/** Pieces of exactly `size` bytes, the last one smaller. */
async function* chunksOf(body: Uint8Array | AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Buffer> {
  let pending: Buffer[] = []
  let length = 0
  for await (const chunk of body instanceof Uint8Array ? [body] : body) {
    pending.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
    length += chunk.byteLength
    if (length < size) continue
    const whole = Buffer.concat(pending)
    let start = 0
    for (; whole.length - start >= size; start += size) yield whole.subarray(start, start + size)
    pending = start === whole.length ? [] : [whole.subarray(start)]
    length = whole.length - start
  }
  if (length > 0) yield Buffer.concat(pending)
}

async function* resumed(first: readonly Buffer[], rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* first
  yield* rest
}

const hex = (body: Uint8Array): string => createHash('sha256').update(body).digest('hex')

function unlessMissing(error: unknown): void {
  if (!(error instanceof SluiceError) || error.code !== 'object_missing') throw error
}

function tooLarge(response: IncomingMessage, path: string): SluiceError {
  response.destroy()
  return storeError('object_too_large', 'is too large', path)
}

const truncated = (path: string): SluiceError =>
  storeError('object_truncated', 'has not the length it should have', path)

function storeError(code: string, what: string, path: string): SluiceError {
  return new SluiceError('INTERNAL', `a file of the object store ${what}`, {
    code,
    cause: new Error(`object store path ${JSON.stringify(path)}`),
  })
}
