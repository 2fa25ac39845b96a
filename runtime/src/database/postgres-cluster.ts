/** Makes the cluster (PostgreSQL's data folder) and the superuser's password. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import type { Account } from './postgres-account.ts'
import type { Binaries } from './postgres-binaries.ts'
import type { ServerHome } from './postgres-home.ts'

export const SUPERUSER = 'postgres'
const MAJOR_VERSION = '18'

/** Passwords on the socket and on loopback; nobody else can connect. */
const HOST_RULES = `local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
`

/** Only this machine's own processes come to the socket, and only those of the account to its folder. */
const SOCKET_RULES = 'local all all password\n'

export interface ClusterOptions {
  readonly home: ServerHome
  readonly binaries: Binaries
  readonly account: Account | null
  /** False leaves the new files to the system to write out: for clusters that nobody will miss. */
  readonly durable: boolean
  /** Nobody connects but through the socket. */
  readonly isSocketOnly?: boolean
  /** A cluster to copy instead of making one, with its password file beside it. */
  readonly template?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Makes what is missing and returns the superuser's password. Repeatable at any point. */
export async function ensureCluster(options: ClusterOptions): Promise<string> {
  const { home } = options
  if (!existsSync(join(home.cluster, 'PG_VERSION'))) {
    if (existsSync(home.cluster) && readdirSync(home.cluster).length > 0) throw notWhole(home.cluster)
    await createCluster(options)
  }
  const version = readFileSync(join(home.cluster, 'PG_VERSION'), 'utf8').trim()
  if (version !== MAJOR_VERSION) throw wrongVersion(version)
  if (!existsSync(home.passwordFile)) await resetPassword(options)
  const rules = options.isSocketOnly === true ? SOCKET_RULES : HOST_RULES
  writeOwned(join(home.cluster, 'pg_hba.conf'), rules, options.account)
  return readFileSync(home.passwordFile, 'utf8').trim()
}

async function createCluster(options: ClusterOptions): Promise<void> {
  const { home, account } = options
  // Made under another name and renamed when whole, so that a crash in between leaves nothing that looks like a cluster.
  const staging = join(home.folder, 'cluster.new')
  rmSync(staging, { recursive: true, force: true })
  rmSync(home.passwordFile, { force: true })
  if (options.template === undefined) {
    mkdirSync(staging, { mode: 0o700 })
    if (account) chownSync(staging, account.uid, account.gid)
    await initialise(staging, options)
  } else {
    await copyTree(join(options.template, 'cluster'), staging, options)
    cpSync(join(options.template, 'password'), home.passwordFile)
  }
  renameSync(staging, home.cluster)
}

async function initialise(folder: string, options: ClusterOptions): Promise<void> {
  // The built-in locale provider sorts the same on every system, whatever libc or ICU it has.
  const args = ['-D', folder, '-U', SUPERUSER, '--auth=reject', '--encoding=UTF8', '--locale=C', '--no-instructions']
  args.push('--locale-provider=builtin', '--builtin-locale=C.UTF-8')
  if (!options.durable) args.push('--no-sync')
  await run(options.binaries.initdb, args, options, '')
}

/** `cp` keeps owner and mode, and is several times faster than copying file by file from here. */
async function copyTree(from: string, to: string, options: ClusterOptions): Promise<void> {
  await run('cp', ['-Rp', from, to], { ...options, account: null }, '')
}

/** In single-user mode, which needs no login: also the way back where the password file was lost. */
async function resetPassword(options: ClusterOptions): Promise<void> {
  const password = randomBytes(24).toString('base64url')
  const statement = `alter role ${SUPERUSER} password '${password}'\n`
  const args = ['--single', '-D', options.home.cluster, '-c', 'log_statement=none', 'postgres']
  await run(options.binaries.postgres, args, options, statement)
  const staging = `${options.home.passwordFile}.new`
  writeFileSync(staging, `${password}\n`, { mode: 0o600 })
  renameSync(staging, options.home.passwordFile)
}

/** Runs one of PostgreSQL's programs to its end with a bare environment. */
function run(program: string, args: readonly string[], options: ClusterOptions, input: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const child = spawn(program, args, {
    ...(options.account === null ? {} : { uid: options.account.uid, gid: options.account.gid }),
    cwd: '/',
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['pipe', 'ignore', 'pipe'],
    // What a terminal sends to all that it started ends the runtime in order, and not this in the middle.
    detached: true,
    ...(options.signal ? { signal: options.signal } : {}),
  })
  let said = ''
  child.on('error', reject)
  // Without descriptors for them a process has no lines, and the error says so.
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000)
  })
  child.stdin?.on('error', () => undefined).end(input)
  child.on('close', (code, ended) =>
    code === 0 ? resolve() : reject(ended ? endedBy(ended) : initialisationFailed(said)),
  )
  return promise
}

function writeOwned(path: string, text: string, account: Account | null): void {
  const staging = join(dirname(path), `.${Date.now()}.new`)
  writeFileSync(staging, text, { mode: 0o600 })
  if (account) chownSync(staging, account.uid, account.gid)
  chmodSync(staging, 0o600)
  renameSync(staging, path)
}

function initialisationFailed(said: string): SluiceError {
  return new SluiceError('CONFIG', 'the embedded PostgreSQL could not make its data folder', {
    code: 'postgres_init_failed',
    remedy: 'Check the free disk space and the permissions of the data folder.',
    cause: new Error(said),
  })
}

/** Nothing is wrong with the folder: what was begun there is made anew. */
function endedBy(signal: NodeJS.Signals): SluiceError {
  return new SluiceError('CONFIG', `the making of the embedded PostgreSQL's data folder was ended by ${signal}`, {
    code: 'postgres_init_failed',
    remedy: 'Start again. Where nobody ended it, the machine had no memory left for it.',
  })
}

/** Never made anew in its place: what it holds is somebody's registry. */
function notWhole(cluster: string): SluiceError {
  return new SluiceError('CONFIG', `the embedded PostgreSQL's folder is there and lacks PG_VERSION: ${cluster}`, {
    code: 'postgres_folder_broken',
    remedy: 'Put the data folder back from a backup. To begin with an empty registry, move the whole data folder away.',
  })
}

function wrongVersion(version: string): SluiceError {
  return new SluiceError('CONFIG', `the data folder was made by PostgreSQL ${version}, this is ${MAJOR_VERSION}`, {
    code: 'postgres_version_mismatch',
    remedy: `Move the data with pg_upgrade or with a dump, or use the release of Sluice that brought PostgreSQL ${version}.`,
  })
}
