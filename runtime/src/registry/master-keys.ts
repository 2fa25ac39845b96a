/**
 * The keys that wrap the tenants' keys. Embedded they lie in one file of mode 0600 in the data folder; in production
 * they are given from outside it. New keys are wrapped under the current one, the others only open.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { KEY_BYTES } from './sealing.ts'

export class MasterKeys {
  readonly #path: string | null
  #currentId: string
  #keys: ReadonlyMap<string, Buffer>

  /** `keys` by id, base64 of 32 bytes each; `path` is the file that they are from, which others may change meanwhile. */
  constructor(currentId: string, keys: Readonly<Record<string, string>>, path: string | null = null) {
    this.#path = path
    this.#currentId = currentId
    this.#keys = decodeKeys(keys)
    this.key(currentId)
  }

  /** Which new keys are wrapped under. Asked of the file each time: another runtime may have replaced it. */
  get currentId(): string {
    this.#readAgain()
    return this.#currentId
  }

  /** Throws CONFIG `master_key_missing` for an id that is not among them, and not in the file by now. */
  key(id: string): Buffer {
    const key = this.#keys.get(id) ?? this.#readAgain().get(id)
    if (key) return key
    throw new SluiceError('CONFIG', `the master key ${id}, which the registry names, is missing`, {
      code: 'master_key_missing',
      remedy: MISSING_REMEDY,
      details: { key_id: id },
    })
  }

  /**
   * Adds a key to the file and makes it the current one; of the others the former one is kept, and those of `needed`.
   * Throws CONFIG `master_key_file_unwritable`.
   */
  replace(needed: readonly string[]): void {
    if (this.#path === null) throw unwritable()
    const formerId = this.currentId
    const kept = [...this.#keys.keys()].filter((id) => id === formerId || needed.includes(id))
    const fresh = newKey()
    const keys = Object.fromEntries(kept.map((id) => [id, this.key(id).toString('base64')]))
    try {
      renameSync(writeBeside(this.#path, { current: fresh.current, keys: { ...keys, ...fresh.keys } }), this.#path)
      forgetStaged(this.#path)
      syncFolder(dirname(this.#path))
    } catch (cause) {
      throw unwritable(cause)
    }
    this.#readAgain()
  }

  #readAgain(): ReadonlyMap<string, Buffer> {
    const file = this.#path === null ? null : readKeyFile(this.#path)
    if (file !== null) {
      this.#currentId = file.current
      this.#keys = decodeKeys(file.keys)
    }
    return this.#keys
  }
}

const MISSING_REMEDY =
  'Put back the master key file that belongs to this registry, or add the key to the file in secrets_dir.'

function unwritable(cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', 'the master key file cannot be written', {
    code: 'master_key_file_unwritable',
    remedy: 'Add a key to the file where it is kept, name it as current, and rotate again.',
    cause,
  })
}

interface KeyFile {
  readonly current: string
  readonly keys: Readonly<Record<string, string>>
}

/**
 * Reads the file. Where there is none it is made with one new key, unless the registry names keys already, in `needed`:
 * then, and where the file lacks one of them, throws CONFIG `master_key_missing`, since what lies under a lost key would
 * seem to be there and could never be read. Two processes at once end up with the same key.
 */
export function openMasterKeyFile(path: string, needed: readonly string[] = []): MasterKeys {
  const found = readKeyFile(path)
  if (found === null && needed.length > 0) {
    throw new SluiceError('CONFIG', `the registry names master keys, and there is no file ${path}`, {
      code: 'master_key_missing',
      remedy: MISSING_REMEDY,
      details: { key_ids: needed },
    })
  }
  const file = found ?? createKeyFile(path)
  const masters = new MasterKeys(file.current, file.keys, path)
  for (const id of needed) masters.key(id)
  return masters
}

function newKey(): KeyFile {
  const id = `mk_${randomBytes(6).toString('hex')}`
  return { current: id, keys: { [id]: randomBytes(KEY_BYTES).toString('base64') } }
}

function createKeyFile(path: string): KeyFile {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const staging = writeBeside(path, newKey())
  try {
    // A link fails where the name is taken: the loser reads the winner's file instead of replacing it.
    linkSync(staging, path)
    syncFolder(dirname(path))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(staging, { force: true })
  }
  return readKeyFile(path) as KeyFile
}

/** Written out to the disk before it gets its name: a key that a crash could lose must not wrap anything. */
function writeBeside(path: string, file: KeyFile): string {
  const staging = `${path}.${randomBytes(6).toString('hex')}`
  const fd = openSync(staging, 'wx', 0o600)
  try {
    // Not `writeSync`, which a full disk or a limit lets end well after a part: that part would take the place of all keys.
    writeFileSync(fd, `${JSON.stringify(file, null, 2)}\n`)
    fsyncSync(fd)
  } catch (error) {
    unlinkSync(staging)
    throw error
  } finally {
    closeSync(fd)
  }
  return staging
}

const STAGED = /^\.[0-9a-f]{12}$/

/** Copies of a process that was killed before its file had the name: keys that are dropped later would stay in them. */
function forgetStaged(path: string): void {
  const [folder, name] = [dirname(path), basename(path)]
  for (const file of readdirSync(folder)) {
    if (file.startsWith(name) && STAGED.test(file.slice(name.length))) rmSync(join(folder, file), { force: true })
  }
}

/** A name is only there after a power failure once its folder was written out: keys must be, before anything lies under them. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r')
  fsyncSync(fd)
  closeSync(fd)
}

function readKeyFile(path: string): KeyFile | null {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new SluiceError('CONFIG', `the master key file cannot be read: ${path}`, {
      code: 'master_key_file_invalid',
      remedy: 'Let this account read it; where it is none, put the file back.',
      cause: error,
    })
  }
  try {
    const file = JSON.parse(text) as KeyFile
    if (typeof file.current === 'string' && typeof file.keys === 'object' && file.keys !== null) return file
  } catch {
    // Said below, without the text: it may hold half a key.
  }
  throw new SluiceError('CONFIG', 'the master key file cannot be read', {
    code: 'master_key_file_invalid',
    remedy: 'Restore it from a backup; without it the stored secrets are lost and must be entered again.',
  })
}

function decodeKeys(keys: Readonly<Record<string, string>>): ReadonlyMap<string, Buffer> {
  return new Map(Object.entries(keys).map(([id, text]) => [id, decodeKey(text)]))
}

function decodeKey(text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  if (key.length === KEY_BYTES) return key
  throw new SluiceError('CONFIG', `a master key does not have ${KEY_BYTES} bytes`, {
    code: 'master_key_file_invalid',
    remedy: 'Give 32 random bytes in base64.',
  })
}
