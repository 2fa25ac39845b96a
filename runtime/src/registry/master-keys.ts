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
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { KEY_BYTES } from './sealing.ts'

export class MasterKeys {
  readonly currentId: string
  readonly #keys: ReadonlyMap<string, Buffer>

  /** `keys` by id, base64 of 32 bytes each. */
  constructor(currentId: string, keys: Readonly<Record<string, string>>) {
    this.currentId = currentId
    this.#keys = new Map(Object.entries(keys).map(([id, text]) => [id, decodeKey(text)]))
    this.key(currentId)
  }

  /** Throws CONFIG `master_key_missing` for an id that is not among them. */
  key(id: string): Buffer {
    const key = this.#keys.get(id)
    if (key) return key
    throw new SluiceError('CONFIG', 'the master key of a stored secret is missing', {
      code: 'master_key_missing',
      remedy: 'Put back the master key file that belongs to this registry.',
      details: { key_id: id },
    })
  }
}

interface KeyFile {
  readonly current: string
  readonly keys: Readonly<Record<string, string>>
}

/** Reads the file; makes it with one new key where there is none. Two processes at once end up with the same key. */
export function openMasterKeyFile(path: string): MasterKeys {
  const file = readKeyFile(path) ?? createKeyFile(path)
  return new MasterKeys(file.current, file.keys)
}

/** Adds a new key and makes it the current one. Rewrap the tenants' keys next; the old key stays until then. */
export function addMasterKey(path: string): MasterKeys {
  const before = readKeyFile(path) ?? createKeyFile(path)
  const fresh = newKey()
  const file = { current: fresh.current, keys: { ...before.keys, ...fresh.keys } }
  renameSync(writeBeside(path, file), path)
  return new MasterKeys(file.current, file.keys)
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
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(staging)
  }
  return readKeyFile(path) as KeyFile
}

/** Written out to the disk before it gets its name: a key that a crash could lose must not wrap anything. */
function writeBeside(path: string, file: KeyFile): string {
  const staging = `${path}.${randomBytes(6).toString('hex')}`
  const fd = openSync(staging, 'wx', 0o600)
  writeSync(fd, `${JSON.stringify(file, null, 2)}\n`)
  fsyncSync(fd)
  closeSync(fd)
  return staging
}

function readKeyFile(path: string): KeyFile | null {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
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

function decodeKey(text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  if (key.length === KEY_BYTES) return key
  throw new SluiceError('CONFIG', `a master key does not have ${KEY_BYTES} bytes`, {
    code: 'master_key_file_invalid',
    remedy: 'Give 32 random bytes in base64.',
  })
}
