/**
 * What separates two states of a product's variant, on disk, as lines that are sent as they are. Each difference is computed once,
 * whoever follows, and read in pieces by all of them; nobody's slowness holds memory. The lines stand in the order of the
 * key: a difference that was removed to make room is computed again to the same bytes, so that a place in it stays good.
 */
import { createHash } from 'node:crypto'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine, EngineLimits } from '@sluice/engine'
import { type ChangeSet, type Column, SluiceError } from '@sluice/sdk'
import { rowJson } from '../events/row-json.ts'
import { onAccountOf } from '../registry/cpu-accounts.ts'
import { deltaChangeSet } from './change-set.ts'
import type { LakeState } from './lake-state.ts'

export interface ChangeSpoolsOptions {
  readonly engine: Engine
  readonly limits: EngineLimits
  /** Is there, and is nobody else's; it goes with `close`. */
  readonly directory: string
  /** Of all files together. */
  readonly maxBytes: number
}

/** From one state to another, of one variant. Both have the same key. */
export interface SpooledStep {
  readonly tenant: string
  /** Names the variant's table among all. */
  readonly table: string
  /** Null: from nothing, so that all rows are upserts. */
  readonly before: LakeState | null
  readonly after: LakeState
}

export interface SpooledLine {
  readonly kind: 'upsert' | 'delete'
  /** The row, or its key. */
  readonly json: string
  /** Where the next line begins. */
  readonly end: number
}

interface Spool {
  readonly tenant: string
  readonly file: string
  readonly written: Promise<number>
  /** As far as it is known. */
  bytes: number
  isWritten: boolean
  readAtMs: number
}

const PIECE_BYTES = 64 * 1024
/** Of one line; a row in the lake may have as much. */
const MAX_LINE_BYTES = 64 * 1024 * 1024
const NEWLINE = 10
const UPSERT = 'u'
const DELETE = 'd'
/** One that others push out while it is read is computed again so often for one piece. */
const MAX_LOOKS = 5
/** Rows are on disk no longer than somebody follows: the lake may forget them, and tenants go. */
const KEPT_MS = 10 * 60_000
const SWEEP_MS = 60_000

export class ChangeSpools {
  readonly #options: ChangeSpoolsOptions
  readonly #closing = new AbortController()
  /** The one that was asked for last comes last. */
  readonly #spools = new Map<string, Spool>()
  #bytes = 0
  #computed = 0
  #followers = 0

  readonly #sweep = setInterval(() => this.#forgetUnread(), SWEEP_MS).unref()

  /** Where other processes of this runtime have spools of their own: has them forget those of the tenant. */
  forgetElsewhere: (tenant: string) => Promise<void> = async () => undefined

  constructor(options: ChangeSpoolsOptions) {
    this.#options = options
  }

  load(): { readonly followers: number; readonly bytes: number; readonly computed: number } {
    return { followers: this.#followers, bytes: this.#bytes, computed: this.#computed }
  }

  /** Counts a follower until the disposal. */
  follow(): Disposable {
    this.#followers += 1
    return {
      [Symbol.dispose]: () => {
        this.#followers -= 1
      },
    }
  }

  /**
   * Whole lines from that byte on, some kilobytes of them; none: it is the end. Throws QUOTA `changes_too_large`, and RangeError
   * for a place that is in no such difference.
   */
  async read(step: SpooledStep, from: number): Promise<readonly SpooledLine[]> {
    for (let look = 1; ; look += 1) {
      const spool = this.#spoolOf(step)
      const size = await spool.written
      if (from > size) throw new RangeError('the difference has no such place')
      if (from === size) return []
      const lines = await linesOf(spool.file, from, size)
      if (lines !== null) return lines
      this.#forget(spool)
      if (look === MAX_LOOKS) throw new Error('a difference is pushed out as soon as it is written')
    }
  }

  /**
   * Of one tenant none is kept, here and in other processes, those neither that are being written: whoever follows has them
   * computed again. Resolves when their files are gone; rejected where one cannot be removed.
   */
  async forgetOf(tenant: string): Promise<void> {
    const own = [...this.#spools.values()].filter((spool) => spool.tenant === tenant)
    await Promise.all(
      own.map(async (spool) => {
        // Whoever waits for it is told why it failed.
        await spool.written.catch(() => undefined)
        for (const [key, known] of this.#spools) if (known === spool) this.#drop(key, spool)
        await rm(spool.file, { force: true })
      }),
    )
    await this.forgetElsewhere(tenant)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    this.#closing.abort()
    // Whoever waits for one is told there.
    await Promise.allSettled([...this.#spools.values()].map(({ written }) => written))
    // No rows stay on disk of a runtime that does not run.
    await rm(this.#options.directory, { recursive: true, force: true })
  }

  #spoolOf(step: SpooledStep): Spool {
    const key = keyOf(step)
    const known = this.#spools.get(key)
    if (known !== undefined) {
      this.#spools.delete(key)
      this.#spools.set(key, known)
      known.readAtMs = performance.now()
      return known
    }
    const file = join(this.#options.directory, `${key}-${this.#computed}.lines`)
    this.#computed += 1
    const spool: Spool = {
      tenant: step.tenant,
      file,
      bytes: 0,
      isWritten: false,
      readAtMs: performance.now(),
      written: Promise.resolve().then(() => this.#write(step, spool)),
    }
    // Whoever waits for it is told; the next one that asks begins anew.
    spool.written.catch(() => this.#forget(spool))
    this.#spools.set(key, spool)
    return spool
  }

  async #write(step: SpooledStep, spool: Spool): Promise<number> {
    const { engine, limits } = this.#options
    const directory = `${spool.file}.work`
    await mkdir(directory, { mode: 0o700 })
    try {
      const { signal } = this.#closing
      const options = { engine, limits, directory, signal, isOrdered: true }
      const before = step.before ?? nothingOf(step.after)
      await onAccountOf(step.tenant, async () => {
        const opened = await deltaChangeSet(before, step.after, options)
        try {
          await this.#writeLines(opened.changes, spool)
        } finally {
          await opened.close()
        }
      })
      spool.isWritten = true
      return spool.bytes
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  }

  async #writeLines(changes: ChangeSet, spool: Spool): Promise<void> {
    await using file = await open(spool.file, 'wx', 0o600)
    for await (const piece of inPieces(linesOfChanges(changes))) {
      this.#closing.signal.throwIfAborted()
      this.#makeRoom(piece.byteLength, spool)
      await file.appendFile(piece)
    }
  }

  #makeRoom(bytes: number, spool: Spool): void {
    const { maxBytes } = this.#options
    for (const other of this.#spools.values()) {
      if (this.#bytes + bytes <= maxBytes) break
      if (other.isWritten) this.#forget(other)
    }
    if (this.#bytes + bytes > maxBytes) throw tooLarge(maxBytes)
    this.#bytes += bytes
    spool.bytes += bytes
  }

  #forgetUnread(): void {
    const before = performance.now() - KEPT_MS
    for (const spool of this.#spools.values()) {
      if (spool.isWritten && spool.readAtMs < before) this.#forget(spool)
    }
  }

  #drop(key: string, spool: Spool): void {
    this.#spools.delete(key)
    this.#bytes -= spool.bytes
  }

  #forget(spool: Spool): void {
    for (const [key, known] of this.#spools) {
      if (known !== spool) continue
      this.#drop(key, spool)
      // What cannot be removed now goes with the folder, at the next start.
      rm(spool.file, { force: true }).catch(() => undefined)
    }
  }
}

function keyOf({ tenant, table, before, after }: SpooledStep): string {
  const named = [tenant, table, before?.snapshotId ?? null, after.snapshotId]
  return createHash('sha256').update(JSON.stringify(named)).digest('hex').slice(0, 32)
}

function nothingOf({ snapshotId, columns, primaryKey }: LakeState): LakeState {
  return { snapshotId, columns, primaryKey, files: [], rowCount: 0 }
}

async function* linesOfChanges(changes: ChangeSet): AsyncGenerator<string> {
  const { columns, primaryKey } = changes.schema
  const keyColumns = primaryKey.map((name) => columns.find((column) => column.name === name) as Column)
  for await (const { rowCount, columns: values } of changes.upserts()) {
    for (let row = 0; row < rowCount; row += 1) {
      const cells = values.map((column) => column[row] ?? null)
      yield `${UPSERT}${oneLine(rowJson(columns, cells))}\n`
    }
  }
  for await (const { rowCount, columns: values } of changes.deletes()) {
    for (let row = 0; row < rowCount; row += 1) {
      const cells = values.map((column) => column[row] ?? null)
      yield `${DELETE}${oneLine(rowJson(keyColumns, cells))}\n`
    }
  }
}

/** Documents keep the line breaks that they were written with, between their tokens: in texts there are none. */
const oneLine = (json: string): string => json.replace(/[\r\n]/g, ' ')

async function* inPieces(lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  let text = ''
  for await (const line of lines) {
    text += line
    if (text.length < PIECE_BYTES) continue
    yield Buffer.from(text)
    text = ''
  }
  if (text !== '') yield Buffer.from(text)
}

/** Null where the file is gone. */
async function linesOf(path: string, from: number, size: number): Promise<readonly SpooledLine[] | null> {
  const file = await open(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (file === null) return null
  try {
    for (let wanted = PIECE_BYTES; wanted <= MAX_LINE_BYTES; wanted *= 4) {
      const bytes = Math.min(wanted, size - from)
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(bytes), 0, bytes, from)
      const end = buffer.subarray(0, bytesRead).lastIndexOf(NEWLINE)
      if (end >= 0) return split(buffer.subarray(0, end + 1), from)
    }
    throw new Error('a line of a difference has no end')
  } finally {
    await file.close()
  }
}

function split(bytes: Buffer, from: number): readonly SpooledLine[] {
  const lines: SpooledLine[] = []
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start)
    const kind = bytes.toString('latin1', start, start + 1) === UPSERT ? 'upsert' : 'delete'
    lines.push({ kind, json: bytes.toString('utf8', start + 1, end), end: from + end + 1 })
    start = end + 1
  }
  return lines
}

function tooLarge(maxBytes: number): SluiceError {
  return new SluiceError('QUOTA', 'the rows that changed are more than are kept for followers', {
    code: 'changes_too_large',
    remedy: 'Read the product as parquet by POST /api/v1/query, then follow its changes from now.',
    details: { max_bytes: maxBytes },
  })
}
