/**
 * The folder in which the embedded server lives: `<data folder>/postgres` wherever the server's account can reach that.
 *
 * ```
 * postgres/            this process's; the server's account may only pass through
 *   cluster/           PostgreSQL's data folder, the server account's own
 *   socket/            its unix socket, unless the path would be too long for one
 *   password           of the superuser, readable by this process only
 *   server.log
 *   server.lock
 * ```
 * Under root a data folder may lie where no other account can go. Then the home is made under /var/lib/sluice, named by
 * a hash of the data folder's path, and `<data folder>/postgres` is a symbolic link that says where.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import type { Account } from './postgres-account.ts'

export interface ServerHome {
  readonly folder: string
  readonly cluster: string
  readonly socketFolder: string
  readonly passwordFile: string
  readonly logFile: string
}

/** sun_path holds 104 bytes on macOS and 108 on Linux; PostgreSQL adds `/.s.PGSQL.65535.lock`. */
const MAX_SOCKET_FOLDER_BYTES = 80

/** Makes the folders (not the cluster itself) and returns where they are. */
export function prepareHome(dataFolder: string, account: Account | null): ServerHome {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 })
  const folder = placeHome(realpathSync(dataFolder), account)
  const home = {
    folder,
    cluster: join(folder, 'cluster'),
    passwordFile: join(folder, 'password'),
    logFile: join(folder, 'server.log'),
  }
  return { ...home, socketFolder: prepareSocketFolder(folder, account) }
}

/** Removes what `prepareHome` made, and what came to lie in it. The server has ended. */
export function removeHome(dataFolder: string, home: ServerHome): void {
  for (const path of [home.socketFolder, home.folder, join(dataFolder, 'postgres')]) {
    rmSync(path, { recursive: true, force: true })
  }
}

/** The cluster's folder as far as it exists already: its owner decides which account the server runs as. */
export function existingCluster(dataFolder: string): string {
  return join(dataFolder, 'postgres', 'cluster')
}

function placeHome(dataFolder: string, account: Account | null): string {
  const own = join(dataFolder, 'postgres')
  if (existsSync(own)) {
    if (account !== null) letThrough(dataFolder, account)
    return checkedHome(realpathSync(own), account)
  }
  if (account === null || letThrough(dataFolder, account)) {
    mkdirSync(own, { mode: 0o700 })
    return checkedHome(own, account)
  }
  const elsewhere = join(sharedBase(account), createHash('sha256').update(dataFolder).digest('hex').slice(0, 16))
  mkdirSync(elsewhere, { recursive: true, mode: 0o700 })
  replaceLink(own, elsewhere)
  return checkedHome(elsewhere, account)
}

function replaceLink(link: string, target: string): void {
  // A dangling link: what it led to was removed, the cluster with it.
  const dangling = lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
  if (dangling) {
    mkdirSync(readlinkSync(link), { recursive: true, mode: 0o700 })
    return
  }
  symlinkSync(target, link)
}

/** Only the server's group may pass, and nobody may list. */
function checkedHome(folder: string, account: Account | null): string {
  if (account === null) return folder
  if (statSync(folder).uid === process.getuid?.()) {
    chownSync(folder, 0, account.gid)
    chmodSync(folder, 0o710)
  }
  if (canEnter(folder, account)) return folder
  throw new SluiceError('CONFIG', `the account "${account.name}" cannot reach the folder of the embedded PostgreSQL`, {
    code: 'postgres_home_unreachable',
    remedy: 'Let that account pass through the folders above the data folder (chmod o+x), or use another data folder.',
  })
}

/**
 * True when the account can come as far as the data folder. A data folder which root made 0700 is opened to the group
 * of the server's account, for passing through only, and so are the folders above it in the system's temporary folder.
 */
function letThrough(dataFolder: string, account: Account): boolean {
  const undo: (() => void)[] = []
  for (const folder of [dataFolder, ...temporaryParents(dataFolder)]) {
    if (canEnter(dataFolder, account)) return true
    const { uid, gid, mode } = statSync(folder)
    if (uid !== 0 || !isRootsAlone(gid, mode)) continue
    setAccess(folder, account.gid, mode | 0o010)
    undo.push(() => setAccess(folder, gid, mode))
  }
  if (canEnter(dataFolder, account)) return true
  for (const restore of undo) restore()
  return false
}

/** As it was made, or as a copy that kept modes and no groups (cp -r) has what was opened to the server's account. */
function isRootsAlone(gid: number, mode: number): boolean {
  return (mode & 0o070) === 0 || ((mode & 0o070) === 0o010 && gid === 0)
}

function setAccess(folder: string, gid: number, mode: number): void {
  chownSync(folder, 0, gid)
  chmodSync(folder, mode & 0o7777)
}

/** The folders between the data folder and the temporary folder, where it lies in that; elsewhere none. */
function temporaryParents(dataFolder: string): readonly string[] {
  const temporary = realpathSync(tmpdir())
  if (!dataFolder.startsWith(`${temporary}/`)) return []
  const parents: string[] = []
  for (let folder = dirname(dataFolder); folder !== temporary; folder = dirname(folder)) parents.push(folder)
  return parents
}

/** Asked of the system itself, which knows about access lists and mounts. */
function canEnter(folder: string, account: Account): boolean {
  const options = { uid: account.uid, gid: account.gid, cwd: '/', stdio: 'ignore' } as const
  return spawnSync('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], options).status === 0
}

function sharedBase(account: Account): string {
  for (const base of ['/var/lib/sluice', join(tmpdir(), 'sluice-postgres')]) {
    try {
      mkdirSync(base, { recursive: true, mode: 0o711 })
    } catch {
      // This account may not make it: the next one is tried, and at the end it is said that there is none.
      continue
    }
    if (statSync(base).uid === 0 && canEnter(base, account)) return base
  }
  throw new SluiceError('CONFIG', 'there is no folder in which the embedded PostgreSQL can keep its data', {
    code: 'postgres_home_missing',
    remedy: 'Use a data folder that other accounts can pass through, or start the runtime as an ordinary user.',
  })
}

function prepareSocketFolder(home: string, account: Account | null): string {
  const inside = join(home, 'socket')
  if (Buffer.byteLength(inside) <= MAX_SOCKET_FOLDER_BYTES) return ownFolder(inside, account)
  const hash = createHash('sha256').update(home).digest('hex').slice(0, 16)
  const short = join(tmpdir(), `sluice-${hash}`)
  const base = Buffer.byteLength(short) <= MAX_SOCKET_FOLDER_BYTES ? short : `/tmp/sluice-${hash}`
  try {
    return ownFolder(base, account)
  } catch {
    // Somebody else has that name in the common folder: take one that nobody can have.
    return ownFolder(mkdtempSync('/tmp/sluice-'), account)
  }
}

/** Makes a 0700 folder of the server's account; throws where another account already has the name. */
function ownFolder(path: string, account: Account | null): string {
  const uid = account?.uid ?? process.getuid?.() ?? 0
  const present = lstatSync(path, { throwIfNoEntry: false })
  if (!present) mkdirSync(path, { mode: 0o700 })
  else if (!present.isDirectory() || (present.uid !== uid && present.uid !== process.getuid?.())) {
    throw new Error('the folder belongs to another account')
  }
  if (account) chownSync(path, account.uid, account.gid)
  chmodSync(path, 0o700)
  return path
}
