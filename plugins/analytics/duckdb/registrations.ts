/**
 * What the store keeps: for each dataset which files of the lake are its current epoch. Each state of a registration
 * is a numbered file that never changes, and the highest number counts. A new state is linked to the next number,
 * which fails where another writer came first: compare and set, by the file system alone.
 */
import { createHash, randomUUID } from 'node:crypto'
import { link, mkdir, open, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type AppliedEpoch,
  type LakeSnapshot,
  type RowPolicy,
  SluiceError,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'

export interface Registration {
  readonly domain: string
  readonly product: string
  readonly variant: string
  /** Of the place; a snapshot from before a column was added does not have it. */
  readonly schema: TableSchema
  readonly policy: RowPolicy | null
  /** The highest token seen, also by writes that came to nothing. */
  readonly fence: bigint
  readonly current: RegisteredEpoch | null
  /** The files of the epoch before, for queries that began before the switch. */
  readonly formerFiles: readonly string[]
}

export interface RegisteredEpoch {
  readonly applied: AppliedEpoch
  readonly schema: TableSchema
  readonly snapshot: LakeSnapshot
}

interface Stored {
  readonly number: number
  /** Null where the file is no registration any more: as if there were none, so that it is made anew. */
  readonly registration: Registration | null
}

/** All that is read for the rows of the epoch. */
export function filesOf({ files, deletes = [] }: Pick<LakeSnapshot, 'files' | 'deletes'>): readonly string[] {
  return [...files, ...deletes]
}

/** So often a state may be overtaken while it is read or written before the call gives up. */
const MAX_ATTEMPTS = 20

/** A writer may put a draft into a folder that is just being removed. */
const REMOVE_ALL = { recursive: true, force: true, maxRetries: 5 } as const

export class Registrations {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  async get(target: Target): Promise<Registration | null> {
    return (await newest(this.#folderOf(target)))?.registration ?? null
  }

  /**
   * Brings the registration from what it is to what `change` makes of it, again from the start where another writer
   * comes in between; null leaves it as it is. Resolves when the new state is on disk.
   */
  async update(target: Target, change: (now: Registration | null) => Registration | null): Promise<void> {
    const folder = this.#folderOf(target)
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const stored = await newest(folder)
      const next = change(stored?.registration ?? null)
      if (next === null) return
      if (stored === null) await mkdir(folder, { recursive: true, mode: 0o700 })
      if (await publish(folder, (stored?.number ?? 0) + 1, next)) return removeOlder(folder, stored?.number ?? 0)
    }
    throw contended()
  }

  async drop(target: Target): Promise<void> {
    await rm(this.#folderOf(target), REMOVE_ALL)
  }

  async dropTenant(tenant: string): Promise<void> {
    await rm(join(this.#root, hashed(tenant)), REMOVE_ALL)
  }

  /** All datasets of the tenant. */
  async ofTenant(tenant: string): Promise<readonly Registration[]> {
    const folder = join(this.#root, hashed(tenant))
    const names = await namesIn(folder)
    const stored = await Promise.all(names.map((name) => newest(join(folder, name))))
    return stored.flatMap((entry) => entry?.registration ?? [])
  }

  #folderOf({ scope, domain, product, variant }: Target): string {
    return join(this.#root, hashed(tenantOf(scope)), hashed(JSON.stringify([domain, product, variant])))
  }
}

async function newest(folder: string): Promise<Stored | null> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const numbers = (await namesIn(folder)).map(numberOf).filter((number) => number > 0)
    if (numbers.length === 0) return null
    const number = Math.max(...numbers)
    const text = await readFile(join(folder, `${number}.json`), 'utf8').catch(nullIfMissing)
    // Missing where newer states have taken its place since its name was seen.
    if (text !== null) return { number, registration: parse(text) }
  }
  throw contended()
}

/** False where the number is taken. */
async function publish(folder: string, number: number, registration: Registration): Promise<boolean> {
  const draft = join(folder, `${randomUUID()}.draft`)
  try {
    await writeDurably(draft, serialize(registration))
    await link(draft, join(folder, `${number}.json`))
    await syncFolder(folder)
    return true
  } catch (error) {
    if (isCode(error, 'EEXIST') || isCode(error, 'ENOENT')) return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A name is durable only once its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** The state before the newest stays for readers that have just seen its name. */
async function removeOlder(folder: string, keepFrom: number): Promise<void> {
  for (const name of await namesIn(folder)) {
    const number = numberOf(name)
    if (number > 0 && number < keepFrom) await rm(join(folder, name), { force: true })
  }
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return (await readdir(folder).catch(nullIfMissing)) ?? []
}

function numberOf(name: string): number {
  return Number(/^(\d+)\.json$/.exec(name)?.[1] ?? 0)
}

function nullIfMissing(error: unknown): null {
  if (isCode(error, 'ENOENT')) return null
  throw error
}

function isCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException).code === code
}

/** A name of any length and alphabet as a folder's. */
function hashed(name: string): string {
  return createHash('sha256').update(name).digest('hex').slice(0, 40)
}

function serialize(registration: Registration): string {
  return JSON.stringify(registration, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}

/** Null where a disk or a hand has spoiled it. */
function parse(text: string): Registration | null {
  try {
    const plain = JSON.parse(text) as Registration
    const { current } = plain
    const applied = current && { ...current.applied, fence: BigInt(current.applied.fence) }
    return { ...plain, fence: BigInt(plain.fence), current: current && applied && { ...current, applied } }
  } catch {
    return null
  }
}

function contended(): SluiceError {
  return new SluiceError('TRANSIENT', 'too many writers change this registration at once', {
    code: 'registration_contended',
    retryAfterMs: 1000,
  })
}
