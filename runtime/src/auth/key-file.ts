import { randomBytes } from 'node:crypto'
import { link, lstat, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { whileLocked } from '../database/folder-lock.ts'

/** ES256: every reader of JWKS knows it, engines and BI tools included. */
export const EMBEDDED_ALGORITHM = 'ES256'

const FILE_NAME = 'issuer-keys.json'
/** Had by whoever reads the keys to write them anew: of two at once one would write without what the other has added. */
const LOCK_NAME = 'issuer-keys.lock'
/** All of them are published, and read by whoever verifies tokens. */
const MAX_KEYS = 100

export interface IssuerKey {
  readonly kid: string
  readonly createdAt: string
  /** After this instant the key is no longer published; null for the key that signs. */
  readonly retireAt: string | null
  readonly privateJwk: JWK
}

/** What the embedded issuer keeps in the data folder; whoever reads it can sign tokens. */
export interface IssuerKeyFile {
  readonly issuer: string
  readonly audience: string
  /** The signing key first. */
  readonly keys: readonly IssuerKey[]
}

export function keyFilePath(dataDirectory: string): string {
  return join(dataDirectory, FILE_NAME)
}

/**
 * Reads the key file. Throws CONFIG `issuer_keys_missing` where there is none, and `issuer_keys_unsafe` where others
 * than its owner may read it.
 */
export async function readKeyFile(dataDirectory: string): Promise<IssuerKeyFile> {
  const path = keyFilePath(dataDirectory)
  const stats = await lstat(path).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT') throw unreadable(path, cause)
    throw keyFileError(
      'issuer_keys_missing',
      'there are no issuer keys in the data folder',
      'Start the server once; it makes them. Where it runs on another folder, name that with --data-dir.',
      cause,
    )
  })
  if (!stats.isFile() || (stats.mode & 0o077) !== 0) {
    throw keyFileError(
      'issuer_keys_unsafe',
      'the issuer keys can be read by other users',
      'Make the key file private (mode 0600), then rotate the keys.',
    )
  }
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw unreadable(path, cause)
  })
  try {
    const parsed: unknown = JSON.parse(text)
    if (isKeyFile(parsed)) return parsed
  } catch (cause) {
    throw broken(cause)
  }
  throw broken()
}

/**
 * The key file, made with a first key where there is none. Of several processes that start at once exactly one makes
 * it, and all get the same keys. A changed issuer or audience is written back, with the same keys.
 */
export async function openKeyFile(dataDirectory: string, issuer: string, audience: string): Promise<IssuerKeyFile> {
  await mkdir(dataDirectory, { recursive: true })
  const existing = await readKeyFile(dataDirectory).catch((error: unknown) => {
    if (isSluiceError(error) && error.code === 'issuer_keys_missing') return null
    throw error
  })
  if (existing === null) return createKeyFile(dataDirectory, { issuer, audience, keys: [await newKey()] })
  if (existing.issuer === issuer && existing.audience === audience) return existing
  return whileLocked(dataDirectory, LOCK_NAME, async () => {
    const changed = { ...(await readKeyFile(dataDirectory)), issuer, audience }
    await replaceKeyFile(dataDirectory, changed)
    return changed
  })
}

/**
 * A new signing key; the former ones stay published until the last token that they signed has ended. Returns the new
 * key's id. Several at once come one after the other. Throws CONFIG `issuer_keys_many` where there is no room for another
 * beside those that are published.
 */
export async function rotateKeys(dataDirectory: string, maxTokenTtlS: number, nowMs = Date.now()): Promise<string> {
  // Before anything is made: of a folder without keys it says which they are.
  await readKeyFile(dataDirectory)
  return whileLocked(dataDirectory, LOCK_NAME, () => addKey(dataDirectory, maxTokenTtlS, nowMs))
}

async function addKey(dataDirectory: string, maxTokenTtlS: number, nowMs: number): Promise<string> {
  const file = await readKeyFile(dataDirectory)
  const retireAt = new Date(nowMs + maxTokenTtlS * 1000).toISOString()
  const kept = file.keys
    .filter((key) => isPublished(key, nowMs))
    .map((key) => ({ ...key, retireAt: key.retireAt ?? retireAt }))
  if (kept.length >= MAX_KEYS) throw tooMany(kept)
  const signing = await newKey(nowMs)
  await replaceKeyFile(dataDirectory, { ...file, keys: [signing, ...kept] })
  return signing.kid
}

export function isPublished(key: IssuerKey, nowMs: number): boolean {
  return key.retireAt === null || nowMs < Date.parse(key.retireAt)
}

async function newKey(nowMs = Date.now()): Promise<IssuerKey> {
  const { privateKey } = await generateKeyPair(EMBEDDED_ALGORITHM, { extractable: true })
  const createdAt = new Date(nowMs).toISOString()
  const kid = randomBytes(12).toString('base64url')
  return { kid, createdAt, retireAt: null, privateJwk: await exportJWK(privateKey) }
}

/** `link` makes the whole file appear at once, and fails where another process was quicker. */
async function createKeyFile(dataDirectory: string, file: IssuerKeyFile): Promise<IssuerKeyFile> {
  const temporary = await writeTemporary(dataDirectory, file)
  try {
    await link(temporary, keyFilePath(dataDirectory))
    return file
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return await readKeyFile(dataDirectory)
    throw cause
  } finally {
    await rm(temporary, { force: true })
  }
}

async function replaceKeyFile(dataDirectory: string, file: IssuerKeyFile): Promise<void> {
  await rename(await writeTemporary(dataDirectory, file), keyFilePath(dataDirectory))
  await syncFolder(dirname(keyFilePath(dataDirectory)))
}

async function writeTemporary(dataDirectory: string, file: IssuerKeyFile): Promise<string> {
  const path = `${keyFilePath(dataDirectory)}.${randomBytes(6).toString('hex')}`
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(JSON.stringify(file, null, 2))
    await handle.sync()
  } catch (error) {
    // A full disk has a part of it, with keys in it that nobody would ever look for there.
    await rm(path, { force: true })
    throw error
  } finally {
    await handle.close()
  }
  return path
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function isKeyFile(value: unknown): value is IssuerKeyFile {
  const file = value as IssuerKeyFile | null
  return (
    typeof file === 'object' &&
    file !== null &&
    typeof file.issuer === 'string' &&
    typeof file.audience === 'string' &&
    Array.isArray(file.keys) &&
    file.keys.length > 0 &&
    file.keys.every((key) => typeof key?.kid === 'string' && typeof key.privateJwk?.d === 'string')
  )
}

/** One that was left out would end the tokens that it has signed, and nobody would know why. */
function tooMany(kept: readonly IssuerKey[]): SluiceError {
  const soonest = kept.flatMap(({ retireAt }) => retireAt ?? []).sort()[0]
  return keyFileError(
    'issuer_keys_many',
    `tokens of ${kept.length} keys are good still, and no more keys are kept`,
    `Rotate again after ${soonest}, when the oldest has ended. To end all tokens at once, stop the server and remove the key file.`,
  )
}

/** Nothing is wrong with the file, as far as anybody knows. */
function unreadable(path: string, cause: unknown): SluiceError {
  const remedy = 'Run this as the account that the server has, or let this one read the file.'
  return keyFileError('issuer_keys_broken', `the issuer keys cannot be read: ${path}`, remedy, cause)
}

function broken(cause?: unknown): SluiceError {
  return keyFileError(
    'issuer_keys_broken',
    'the issuer keys in the data folder cannot be understood',
    'Restore the key file from a backup, or remove it: tokens issued so far then end.',
    cause,
  )
}

function keyFileError(code: string, message: string, remedy: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', message, { code, remedy, cause })
}
