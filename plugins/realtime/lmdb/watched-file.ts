/**
 * LMDB maps its files into memory and believes what stands there: where somebody cuts one off or overwrites it meanwhile, the
 * next access ends the process. So they are looked at before they are used, at most every few milliseconds, and what was
 * cut off is put back as zeros: then LMDB errs, and does not crash, in what it had in hand.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { SluiceError } from '@sluice/sdk'

/** A look costs two microseconds, and a read not much more than that. */
const LOOK_EVERY_MS = 2
/** For what LMDB does by itself, and for the map to be whole again soon. */
const IDLE_LOOK_MS = 50

/** Of each of the first two pages: what says that it is LMDB's, and of which version. */
const MARK = { at: 24, bytes: 8 }
const PAGE_BYTES_AT = 48

/** LMDB's files only grow. */
class Length {
  readonly fd: number
  #bytes: number

  constructor(path: string) {
    this.fd = openSync(path, 'r+')
    this.#bytes = fstatSync(this.fd).size
  }

  /** Whether it is there, and as long as before. */
  isKept(): boolean {
    const { size, nlink } = fstatSync(this.fd)
    const isShorter = size < this.#bytes
    if (isShorter) ftruncateSync(this.fd, this.#bytes)
    else this.#bytes = size
    return !isShorter && nlink > 0
  }
}

export class WatchedFiles {
  readonly #data: Length
  readonly #lock: Length
  readonly #mark = Buffer.alloc(MARK.bytes)
  readonly #seen = Buffer.alloc(MARK.bytes)
  readonly #secondPage: number
  readonly #timer: NodeJS.Timeout
  #lookedAt = 0
  #isLost = false
  #isClosed = false
  /** Told once. */
  onLost = (): void => {}

  /** Of a folder that is open in LMDB, and whole. */
  constructor(folder: string) {
    this.#data = new Length(join(folder, 'data.mdb'))
    this.#lock = new Length(join(folder, 'lock.mdb'))
    const pageBytes = Buffer.alloc(4)
    readSync(this.#data.fd, pageBytes, 0, 4, PAGE_BYTES_AT)
    this.#secondPage = pageBytes.readUInt32LE()
    readSync(this.#data.fd, this.#mark, 0, MARK.bytes, MARK.at)
    this.#timer = setInterval(() => this.#look(performance.now()), IDLE_LOOK_MS).unref()
  }

  get isLost(): boolean {
    return this.#isLost
  }

  /** Throws TRANSIENT `store_lost` where a file is not what LMDB takes it for. */
  check(): void {
    const now = performance.now()
    if (!this.#isLost && now - this.#lookedAt > LOOK_EVERY_MS) this.#look(now)
    if (this.#isLost) throw storeLost()
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#timer)
    for (const { fd } of [this.#data, this.#lock]) closeSync(fd)
  }

  #look(now: number): void {
    if (this.#isLost || this.#isClosed) return
    this.#lookedAt = now
    // Both, so that both are as long as before.
    const kept = [this.#data.isKept(), this.#lock.isKept()]
    this.#isLost = kept.includes(false) || !this.#isMarked(0) || !this.#isMarked(this.#secondPage)
    if (this.#isLost) queueMicrotask(this.onLost)
  }

  #isMarked(page: number): boolean {
    readSync(this.#data.fd, this.#seen, 0, MARK.bytes, page + MARK.at)
    return this.#seen.equals(this.#mark)
  }
}

export function storeLost(): SluiceError {
  return new SluiceError('TRANSIENT', 'the file of the realtime store was cut off, overwritten or removed', {
    code: 'store_lost',
    remedy: 'Nothing has to be done: the file is made anew, and filled from the lake. Keep others from it.',
  })
}
