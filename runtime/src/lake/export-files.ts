/**
 * Files of exports, in the tenant's bucket beside its lake, where no catalog leads. A file is a row of parts, each sealed under
 * the tenant's own key for its one place: whoever reads the bucket reads nothing, and a part that is missing, cut or
 * of another file does not open.
 */
import type { ObjectStore } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { ByteRange } from '../flow.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { seal, unseal } from '../registry/sealing.ts'
import { rowsKey } from '../registry/tenant-keys.ts'
import { bucketName } from './tenant-layout.ts'

/** Of each part but the last. */
export const PART_BYTES = 8 * 1024 * 1024

/** What is given at once: a client has its time for each, and a slow one takes long for a part. */
const SLICE_BYTES = 128 * 1024
/** Between two questions whether the reading may go on, where a client takes longer for a part. */
const ASK_MS = 2_000

/** What is older than these goes with the export. */
const FORMER_ATTEMPTS = 20

export interface ExportFile {
  readonly tenant: string
  readonly id: string
  readonly attempt: number
}

export interface FileLength {
  readonly bytes: number
  readonly parts: number
}

export interface ExportFilesDeps {
  readonly store: ObjectStore
  readonly pool: pg.Pool
  readonly masters: MasterKeys
}

export class ExportFiles {
  readonly #deps: ExportFilesDeps

  constructor(deps: ExportFilesDeps) {
    this.#deps = deps
  }

  /** @param onPart after each part that is durable. What it throws ends the writing */
  async write(
    file: ExportFile,
    chunks: AsyncIterable<Uint8Array>,
    onPart: (so: FileLength) => Promise<void>,
    signal: AbortSignal,
  ): Promise<FileLength> {
    const key = await this.#key(file.tenant)
    let written: FileLength = { bytes: 0, parts: 0 }
    const put = async (plain: Buffer): Promise<void> => {
      const sealed = seal(key, plain, placeOf(file, written.parts))
      await this.#deps.store.put(pathOf(file, written.parts), sealed, { sizeBytes: sealed.length, signal })
      written = { bytes: written.bytes + plain.length, parts: written.parts + 1 }
      await onPart(written)
    }
    let waiting: Uint8Array[] = []
    let waitingBytes = 0
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length; ) {
        const piece = chunk.subarray(at, at + PART_BYTES - waitingBytes)
        waiting.push(piece)
        waitingBytes += piece.length
        at += piece.length
        if (waitingBytes < PART_BYTES) continue
        await put(Buffer.concat(waiting))
        waiting = []
        waitingBytes = 0
      }
    }
    signal.throwIfAborted()
    if (waitingBytes > 0) await put(Buffer.concat(waiting))
    return written
  }

  /**
   * @param mayGoOn asked before each part, and every few seconds. What it throws ends the reading
   * @param range default: all bytes
   */
  async *read(
    file: ExportFile,
    { bytes, parts }: FileLength,
    mayGoOn: () => Promise<void>,
    signal: AbortSignal,
    { from, to }: ByteRange = { from: 0, to: bytes - 1 },
  ): AsyncGenerator<Uint8Array> {
    const key = await this.#key(file.tenant)
    let askedMs = 0
    const ask = async (): Promise<void> => {
      await mayGoOn()
      askedMs = performance.now()
    }
    if (parts !== Math.ceil(bytes / PART_BYTES)) throw otherLength(`${parts} parts`, `${bytes} bytes`)
    for (let start = from - (from % PART_BYTES); start <= to; start += PART_BYTES) {
      await ask()
      const part = start / PART_BYTES
      const sealed = await this.#deps.store.get(pathOf(file, part), { signal })
      const plain = unseal(key, Buffer.from(sealed), placeOf(file, part))
      const length = Math.min(PART_BYTES, bytes - start)
      if (plain.length !== length) throw otherLength(`${plain.length} bytes in part ${part}`, `${length}`)
      const end = Math.min(length, to + 1 - start)
      for (let at = Math.max(0, from - start); at < end; at += SLICE_BYTES) {
        if (performance.now() - askedMs > ASK_MS) await ask()
        yield plain.subarray(at, Math.min(end, at + SLICE_BYTES))
      }
    }
  }

  /** All attempts. Repeatable. */
  remove({ tenant, id }: Pick<ExportFile, 'tenant' | 'id'>): Promise<void> {
    return this.#deps.store.removeAll(folderOf(tenant, id))
  }

  /** Of that attempt alone: another may be writing. Repeatable. */
  removeAttempt(file: ExportFile): Promise<void> {
    return this.#deps.store.removeAll(attemptOf(file))
  }

  /** Of that attempt and those before it, which have died. Repeatable. */
  async removeUntil({ tenant, id, attempt: last }: ExportFile): Promise<void> {
    for (let attempt = Math.max(1, last - FORMER_ATTEMPTS + 1); attempt <= last; attempt += 1) {
      await this.removeAttempt({ tenant, id, attempt })
    }
  }

  #key(tenant: string): Promise<Buffer> {
    return rowsKey(this.#deps.pool, this.#deps.masters, tenant)
  }
}

function otherLength(has: string, written: string): SluiceError {
  return new SluiceError('INTERNAL', `an export has ${has}, and was written with ${written}`, {
    code: 'internal_error',
  })
}

const folderOf = (tenant: string, id: string): string => `${bucketName(tenant)}/exports/${id}`

const attemptOf = ({ tenant, id, attempt }: ExportFile): string => `${folderOf(tenant, id)}/${attempt}`

const pathOf = (file: ExportFile, part: number): string => `${attemptOf(file)}/${part}`

const placeOf = ({ tenant, id, attempt }: ExportFile, part: number) => ['export', tenant, id, attempt, part] as const
