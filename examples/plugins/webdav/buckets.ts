import { createHash, randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  type BucketGetOptions,
  type BucketPutOptions,
  type Buckets,
  type CopyTarget,
  isObjectPath,
  SluiceError,
  type StoredObject,
} from '@sluice/sdk'
import { ASK, type Resource, resourcesOf } from './multistatus.ts'
import { type Asked, insist, refusalOf, send, textOf } from './requests.ts'
import type { WebdavSettings } from './settings.ts'

/** In each bucket, and no file of it: a name that begins with a dot is no path. */
const OWN = '.sluice'
const LOCKS = 64
/** Longer than a request may take, so that no move is under way when its lock is over. */
const LOCK_SECONDS = 120
const LOCK = `<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>`

/**
 * Files in folders of a WebDAV server. A file is sent under a name of its own, its length is compared, and then it is
 * moved to its place, so that a reader sees all of it or none. Whoever may not replace a file holds a lock of the server's
 * while he looks and moves: servers look at `Overwrite: F` and move in two steps.
 */
export class WebdavBuckets implements Buckets {
  readonly #settings: WebdavSettings
  readonly #base: string
  /** Folders that are known to be there. */
  readonly #folders = new Set<string>()

  constructor(settings: WebdavSettings) {
    this.#settings = settings
    this.#base = settings.url.replace(/\/+$/, '')
  }

  async ensureBucket(bucket: string): Promise<void> {
    await this.#insist(undefined, () => this.#makeFolder(checked(bucket)))
  }

  async buckets(): Promise<readonly string[]> {
    const found = await this.#insist(undefined, () => this.#below(''))
    return found.flatMap(({ path, isFolder }) => (isFolder && isObjectPath(path) ? [path] : []))
  }

  async dropBucket(bucket: string): Promise<void> {
    for await (const _ of this.list(bucket)) throw fault('object_suspect', 'is in a bucket that is dropped', bucket)
    await this.#delete(bucket)
    this.#folders.clear()
  }

  async put(
    path: string,
    body: Uint8Array | AsyncIterable<Uint8Array>,
    options: BucketPutOptions = {},
  ): Promise<StoredObject> {
    const [bucket = ''] = file(path).split('/')
    const draft = `${bucket}/${OWN}/drafts/${randomUUID()}`
    try {
      const sizeBytes = await this.#upload(draft, body, path, options)
      if (options.ifAbsent === true) await this.#locked(path, (lock) => this.#place(draft, path, lock))
      else await this.#insist(options.signal, () => this.#move(draft, path, { overwrite: 'T' }))
      const there = await this.stat(path)
      if (there?.sizeBytes !== sizeBytes) throw truncated(path)
      return there
    } catch (error) {
      // The first error tells more, and nobody sees what is left there.
      await this.#send({ method: 'DELETE', url: this.#url(draft) }).then(drained, () => undefined)
      throw error
    }
  }

  get(path: string, options: BucketGetOptions): Promise<Uint8Array> {
    let lastSize: number | null = null
    return this.#insist(options.signal, async () => {
      const answer = await this.#ask({ method: 'GET', url: this.#url(file(path)), signal: options.signal }, [200], path)
      const size = announced(answer)
      if (size > options.maxBytes) throw hungUp(answer, fault('object_too_large', 'is too large', path))
      const parts: Buffer[] = []
      for await (const part of answer as AsyncIterable<Buffer>) parts.push(part)
      const whole = Buffer.concat(parts)
      if (whole.length === size && (options.sizeBytes ?? size) === size) return whole
      // Of another length twice over, it is the file and not the way here.
      if (lastSize === whole.length) throw truncated(path)
      lastSize = whole.length
      throw new Error(`${whole.length} bytes came of ${options.sizeBytes ?? size}`)
    })
  }

  copy(path: string, target: CopyTarget, signal: AbortSignal): Promise<void> {
    return this.#insist(signal, async (advanced) => {
      const from = target.receivedBytes
      const headers = from === 0 ? {} : { range: `bytes=${from}-` }
      const answer = await this.#ask(
        { method: 'GET', url: this.#url(file(path)), headers, signal },
        [200, 206, 416],
        path,
      )
      if (answer.statusCode === 416) {
        target.restart()
        throw hungUp(answer, new Error('the file ends before what has come of it'))
      }
      if (answer.statusCode === 200) target.restart()
      const end = target.receivedBytes + announced(answer)
      for await (const chunk of answer as AsyncIterable<Uint8Array>) {
        if (await target.take(chunk)) advanced()
        if (target.failure !== null) return
      }
      if (target.receivedBytes !== end) throw new Error(`${target.receivedBytes} bytes came of ${end}`)
    })
  }

  async stat(path: string): Promise<StoredObject | null> {
    const [found] = await this.#insist(undefined, () => this.#resources(file(path), '0'))
    return found === undefined || found.isFolder ? null : statOf(path, found)
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<StoredObject> {
    const pending = [checked(prefix.replace(/\/$/, ''))]
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const folder = next
      for (const found of await this.#insist(signal, () => this.#below(folder))) {
        if (!isObjectPath(found.path)) continue
        if (found.isFolder) pending.push(found.path)
        else yield statOf(found.path, found)
      }
    }
  }

  async remove(path: string): Promise<void> {
    await this.#delete(file(path))
  }

  uri(path: string): string {
    return this.#url(checked(path)).href
  }

  pathOf(uri: string): string | null {
    const start = `${this.#base}/`
    if (!uri.startsWith(start) || /[?#]/.test(uri)) return null
    try {
      const path = decoded(uri.slice(start.length))
      return isObjectPath(path) && this.uri(path) === uri ? path : null
    } catch {
      // Percents that are no text: nothing of ours.
      return null
    }
  }

  async ping(signal: AbortSignal): Promise<void> {
    await insist({ ...this.#settings, deadline_ms: 0 }, signal, () => this.#resources('', '0'))
  }

  async close(): Promise<void> {}

  /** The length that has been sent, and has arrived. A body that can be read again is sent again. */
  async #upload(
    draft: string,
    body: Uint8Array | AsyncIterable<Uint8Array>,
    path: string,
    { sizeBytes, signal }: BucketPutOptions,
  ): Promise<number> {
    let sent = 0
    const counted = async function* (): AsyncGenerator<Uint8Array> {
      for await (const chunk of body instanceof Uint8Array ? [body] : body) {
        sent += chunk.byteLength
        yield chunk
      }
      if (sizeBytes !== undefined && sent !== sizeBytes) throw truncated(path)
    }
    const once = async () => {
      sent = 0
      await this.#makeFolders(draft)
      const bytes = body instanceof Uint8Array ? body : counted()
      if (body instanceof Uint8Array) {
        sent = body.byteLength
        if (sizeBytes !== undefined && sent !== sizeBytes) throw truncated(path)
      }
      await drained(
        await this.#ask({ method: 'PUT', url: this.#url(draft), body: bytes, signal }, [200, 201, 204], path),
      )
      const [there] = await this.#resources(draft, '0')
      if (there?.sizeBytes !== sent) throw new Error(`${there?.sizeBytes} bytes have arrived of ${sent}`)
      return sent
    }
    if (body instanceof Uint8Array) return this.#insist(signal, once)
    return insist({ ...this.#settings, deadline_ms: 0 }, signal, once)
  }

  /** Under its lock. An attempt before this one may have moved it, and its answer have been lost. */
  async #place(draft: string, path: string, lock: string): Promise<void> {
    const [[there], [left]] = await Promise.all([this.#resources(path, '0'), this.#resources(draft, '0')])
    if (there !== undefined && left === undefined) return
    if (there !== undefined) throw exists(path)
    await this.#move(draft, path, { overwrite: 'F', if: lock })
  }

  async #move(from: string, to: string, headers: Readonly<Record<string, string>>): Promise<void> {
    await this.#makeFolders(to)
    const asked = { method: 'MOVE', url: this.#url(from), headers: { ...headers, destination: this.#url(to).href } }
    const answer = await this.#ask(asked, [201, 204, 404, 412], to)
    await drained(answer)
    if (answer.statusCode === 412) throw new Error('somebody was quicker, or the lock is over')
    if (answer.statusCode !== 404) return
    // Gone: moved by an attempt whose answer was lost, or its folder was taken away.
    const [there] = await this.#resources(to, '0')
    this.#folders.clear()
    if (there === undefined) throw new Error('the draft of a file is gone')
  }

  /** Holds one of the bucket's locks meanwhile. @param work is given the condition that it still holds */
  async #locked(path: string, work: (lock: string) => Promise<void>): Promise<void> {
    const [bucket = ''] = path.split('/')
    const number = createHash('sha256').update(path).digest().readUInt32BE(0) % LOCKS
    const place = `${bucket}/${OWN}/locks/${number}`
    const url = this.#url(place)
    await this.#insist(undefined, async () => {
      await this.#makeFolders(place)
      const headers = { depth: '0', timeout: `Second-${LOCK_SECONDS}`, 'content-type': 'application/xml' }
      const answer = await this.#ask({ method: 'LOCK', url, headers, body: LOCK }, [200, 201, 423], path)
      await drained(answer)
      if (answer.statusCode === 423) throw new Error('another holds the lock')
      const token = String(answer.headers['lock-token'] ?? '')
      try {
        await work(`<${url.href}> (${token})`)
      } finally {
        // It ends by itself where this is lost.
        await this.#send({ method: 'UNLOCK', url, headers: { 'lock-token': token } }).then(drained, () => undefined)
      }
    })
  }

  async #makeFolders(path: string): Promise<void> {
    const names = path.split('/').slice(0, -1)
    for (const [at] of names.entries()) {
      // The bucket is made by who says so.
      if (at > 0) await this.#makeFolder(names.slice(0, at + 1).join('/'))
    }
  }

  async #makeFolder(folder: string): Promise<void> {
    if (this.#folders.has(folder)) return
    // 405: it is there.
    const answer = await this.#ask({ method: 'MKCOL', url: this.#url(folder) }, [201, 405, 409], folder)
    await drained(answer)
    if (answer.statusCode === 409) throw missing(folder)
    this.#folders.add(folder)
  }

  async #delete(path: string): Promise<void> {
    await this.#insist(undefined, async () => {
      await drained(await this.#ask({ method: 'DELETE', url: this.#url(path) }, [200, 204, 404], path))
    })
  }

  /** What is directly in the folder; none where there is no such folder. */
  async #below(folder: string): Promise<readonly (Resource & { readonly path: string })[]> {
    const start = `${new URL(`${this.#base}/`).pathname}`
    return (await this.#resources(folder, '1')).flatMap((found) => {
      const { pathname } = new URL(found.href, this.#base)
      const path = pathname.startsWith(start) ? decoded(pathname.slice(start.length).replace(/\/$/, '')) : ''
      return path === folder || path === '' ? [] : [{ ...found, path }]
    })
  }

  async #resources(path: string, depth: '0' | '1'): Promise<readonly Resource[]> {
    const headers = { depth, 'content-type': 'application/xml' }
    const answer = await this.#ask({ method: 'PROPFIND', url: this.#url(path), headers, body: ASK }, [207, 404], path)
    const text = await textOf(answer)
    return answer.statusCode === 404 ? [] : resourcesOf(text)
  }

  /** An answer of one of these statuses. Throws what another means; of 404, that the file is missing. */
  async #ask(asked: Asked, statuses: readonly number[], path: string): Promise<IncomingMessage> {
    const answer = await this.#send(asked)
    const status = answer.statusCode ?? 0
    if (statuses.includes(status)) return answer
    throw hungUp(answer, status === 404 || status === 409 ? missing(path) : refusalOf(status, path))
  }

  #send(asked: Asked): Promise<IncomingMessage> {
    return send(this.#settings, asked)
  }

  #insist<Result>(signal: AbortSignal | undefined, work: (advanced: () => void) => Promise<Result>): Promise<Result> {
    return insist(this.#settings, signal, work)
  }

  #url(path: string): URL {
    return new URL(`${this.#base}/${path.split('/').map(encodeURIComponent).join('/')}`)
  }
}

const decoded = (text: string): string => text.split('/').map(decodeURIComponent).join('/')

const statOf = (path: string, { sizeBytes, modifiedAt }: Resource): StoredObject => ({ path, sizeBytes, modifiedAt })

/** One that announces nothing could have no end. */
function announced(answer: IncomingMessage): number {
  const length = answer.headers['content-length'] ?? ''
  if (/^\d{1,15}$/.test(length)) return Number(length)
  throw hungUp(answer, new Error('an answer does not say how long it is'))
}

async function drained(answer: IncomingMessage): Promise<void> {
  await textOf(answer)
}

function hungUp(answer: IncomingMessage, why: Error): Error {
  answer.destroy()
  return why
}

function checked(path: string): string {
  if (isObjectPath(path)) return path
  throw fault('object_path_invalid', 'has a path that cannot be used', path)
}

function file(path: string): string {
  if (checked(path).includes('/')) return path
  throw fault('object_path_invalid', 'has a path that cannot be used', path)
}

const missing = (path: string) => fault('object_missing', 'is missing', path)
const truncated = (path: string) => fault('object_truncated', 'has not the length it should have', path)

function exists(path: string): SluiceError {
  const cause = new Error(`path ${JSON.stringify(path)}`)
  return new SluiceError('CONFLICT', 'a file of the object store exists already', { code: 'object_exists', cause })
}

function fault(code: string, what: string, path: string): SluiceError {
  const cause = new Error(`path ${JSON.stringify(path)}`)
  return new SluiceError('INTERNAL', `a file of the object store ${what}`, { code, cause })
}
