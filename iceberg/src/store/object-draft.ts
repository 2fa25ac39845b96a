import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * A file that attempts fill one after the other, each from where the bytes before it end. What an attempt that was given
 * up still writes is of the same object, in its own place, and is waited for.
 */
export class ObjectDraft {
  readonly #path: string
  readonly #file: FileHandle
  #hash = createHash('sha256')
  #written: Promise<void> = Promise.resolve()
  #receivedBytes = 0
  #mostBytes = 0
  #failure: unknown = null

  private constructor(path: string, file: FileHandle) {
    this.#path = path
    this.#file = file
  }

  /** An empty one that will be published as `file`; its folder is made when missing. */
  static async open(file: string): Promise<ObjectDraft> {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    const path = `${file}.${randomUUID()}.draft`
    return new ObjectDraft(path, await open(path, 'wx'))
  }

  get receivedBytes(): number {
    return this.#receivedBytes
  }

  /** Of all that was received. */
  get sha256(): string {
    return this.#hash.copy().digest('hex')
  }

  /** Why bytes could not be written: a fault of this machine, which no further attempt mends. */
  get failure(): unknown {
    return this.#failure
  }

  /** Fulfilled when the bytes are written, or `failure` is set: whether there were never so many before. */
  async take(chunk: Uint8Array): Promise<boolean> {
    const at = this.#receivedBytes
    this.#receivedBytes += chunk.length
    this.#hash.update(chunk)
    this.#written = this.#written.then(() => this.#write(chunk, at))
    const isFurther = this.#receivedBytes > this.#mostBytes
    this.#mostBytes = Math.max(this.#mostBytes, this.#receivedBytes)
    await this.#written
    return isFurther
  }

  /** Other bytes came than should have: all of them count as not received. */
  restart(): void {
    this.#receivedBytes = 0
    this.#hash = createHash('sha256')
  }

  /** Lets the file appear under its name. */
  async publish(file: string): Promise<void> {
    await this.#written
    if (this.#failure !== null) throw this.#failure
    await this.#file.truncate(this.#receivedBytes)
    await this.#file.close()
    await rename(this.#path, file)
  }

  /** Removes it. Repeatable. */
  async discard(): Promise<void> {
    await this.#written
    await this.#file.close()
    await rm(this.#path, { force: true })
  }

  async #write(chunk: Uint8Array, at: number): Promise<void> {
    if (this.#failure !== null) return
    try {
      for (let done = 0; done < chunk.length; ) {
        const { bytesWritten } = await this.#file.write(chunk, done, chunk.length - done, at + done)
        done += bytesWritten
      }
    } catch (error) {
      this.#failure = error
    }
  }
}
