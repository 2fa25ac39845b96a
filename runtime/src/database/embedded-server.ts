/**
 * A real PostgreSQL for one runtime: made at the first start, started and stopped with the runtime, and never left
 * behind by it.
 */

import { closeSync, fstatSync, openSync, readSync, rmSync, statfsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'
import type { DatabaseAddress } from './address.ts'
import { lockFolder } from './folder-lock.ts'
import { freePort } from './free-port.ts'
import { chooseAccount } from './postgres-account.ts'
import { findBinaries } from './postgres-binaries.ts'
import { ensureCluster, SUPERUSER } from './postgres-cluster.ts'
import { existingCluster, prepareHome, removeHome, type ServerHome } from './postgres-home.ts'
import {
  endLeftover,
  readPostmasterFile,
  type ServerExit,
  type ServerProcess,
  startServer,
} from './postgres-process.ts'

export interface EmbeddedServerOptions {
  /** The runtime's data folder; the server lives in its subfolder `postgres`. */
  readonly dataFolder: string
  /** Account to run as when started by root. Default: one of PostgreSQL's own, or a new system account. */
  readonly account?: string
  /** Further settings of postgresql.conf, above the defaults of `SETTINGS`. */
  readonly settings?: Readonly<Record<string, string>>
  /** Where it is to listen, as one before it did. Default: any that is free. */
  readonly port?: number
  /** Default 60 s: recovery after a crash replays the log first. */
  readonly startTimeoutMs?: number
  /** Default true. False lets the process end by itself, and the server with it. */
  readonly keepsProcessAlive?: boolean
  /** A folder with a ready cluster to copy at the first start. */
  readonly template?: string
  /** False where losing the data with the machine does not matter. Default true. */
  readonly durable?: boolean
  /** True: there is only the unix socket, and passwords go through it as they are. Default false. */
  readonly isSocketOnly?: boolean
  /** True: nothing of an earlier run is wanted, whatever state it is in. Default false. */
  readonly isFresh?: boolean
  /** Address space that one of the server's processes may take, where the system keeps such a limit (Linux). Default: any. */
  readonly processBytes?: number
  /** Ends the start, not the running server. */
  readonly signal?: AbortSignal
}

export interface EmbeddedServer {
  /** The superuser's login to the database `postgres`, through the unix socket. */
  readonly address: DatabaseAddress
  /** The same through 127.0.0.1, for programs that cannot use the socket. */
  readonly tcpAddress: DatabaseAddress
  /** Where cluster, log and password are. */
  readonly folder: string
  readonly pid: number
  /** Resolves when the server has ended, asked to or not. */
  readonly ended: Promise<ServerExit>
  /** Fast shutdown: open transactions are rolled back. Resolves when it is done; may be called again. */
  stop(): Promise<void>
  /** Stops the server and removes all its data, wherever it lies: for data folders that are thrown away. */
  destroy(): Promise<void>
}

/** Chosen for one runtime with pools of its own; each may be overridden by `settings`. */
export const SETTINGS: Readonly<Record<string, string>> = {
  max_connections: '200',
  // Provisioning and partition swaps touch many tables in one transaction: one may have all of these times the connections,
  // 100,000 locks. Each is held ready in memory, 200 bytes.
  max_locks_per_transaction: '512',
  shared_buffers: '128MB',
  // No replicas: without their needs, bulk loads into new tables skip the log.
  wal_level: 'minimal',
  max_wal_senders: '0',
  // Nor does it follow another server.
  max_logical_replication_workers: '0',
  autovacuum_worker_slots: '3',
  password_encryption: 'scram-sha-256',
  timezone: 'UTC',
  log_timezone: 'UTC',
  datestyle: 'ISO',
  // Statements here are short; compiling them costs more than it gains.
  jit: 'off',
  // Statements hold tenants' values, so the server's log repeats none.
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_statement: 'none',
  log_parameter_max_length_on_error: '0',
}

const UNSAFE_BUT_FAST = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' } as const
const PORT_ATTEMPTS = 3

/**
 * Starts the server of a data folder and resolves when it takes logins. Throws a CONFIG error where another process has
 * the folder. A server that a killed runtime left behind is ended first.
 */
export async function startEmbeddedServer(options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  const account = chooseAccount(existingCluster(options.dataFolder), options.account)
  const home = prepareHome(options.dataFolder, account)
  const lock = lockFolder(home.folder, 'server.lock')
  try {
    const binaries = findBinaries(account)
    await endLeftover(home.cluster, options.signal)
    if (options.isFresh === true) rmSync(home.cluster, { recursive: true, force: true })
    const { template, signal, durable = true, isSocketOnly = false } = options
    const password = await ensureCluster({ home, binaries, account, durable, isSocketOnly, template, signal })
    const running = await startOnFreePort(home, options, (args) =>
      startServer({
        program: binaries.postgres,
        args,
        account,
        logFile: home.logFile,
        processBytes: options.processBytes ?? null,
        keepsProcessAlive: options.keepsProcessAlive ?? true,
      }),
    )
    void running.process.ended.then(() => lock.release())
    return describe(options.dataFolder, home, password, running)
  } catch (error) {
    lock.release()
    throw error
  }
}

interface Running {
  readonly process: ServerProcess
  readonly port: number
  readonly pid: number
}

function describe(dataFolder: string, home: ServerHome, password: string, running: Running): EmbeddedServer {
  const login = { port: running.port, database: 'postgres', user: SUPERUSER, password, tls: 'disable' } as const
  const stop = async (): Promise<void> => {
    running.process.stop()
    await running.process.ended
  }
  return {
    address: { host: home.socketFolder, ...login },
    tcpAddress: { host: '127.0.0.1', ...login },
    folder: home.folder,
    pid: running.pid,
    ended: running.process.ended,
    stop,
    async destroy() {
      await stop()
      removeHome(dataFolder, home)
    },
  }
}

/** A port that is free now may be taken a moment later: then the server fails to bind, and another is tried. */
async function startOnFreePort(
  home: ServerHome,
  options: EmbeddedServerOptions,
  start: (args: string[]) => ServerProcess,
): Promise<Running> {
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort())
    const logStart = sizeOf(home.logFile)
    const process = start(serverArguments(home, port, options))
    const ready = await waitUntilReady(home, process, options)
    if (ready === 'ready') return { process, port, pid: readPostmasterFile(home.cluster)?.pid ?? 0 }
    process.stop()
    await process.ended
    options.signal?.throwIfAborted()
    const said = readFrom(home.logFile, logStart)
    if (attempt === PORT_ATTEMPTS || !/could not bind|Address already in use/.test(said)) {
      throw notStarted(ready, said, freeBytesOf(home.folder))
    }
  }
}

function serverArguments(home: ServerHome, port: number, options: EmbeddedServerOptions): string[] {
  const settings: Record<string, string> = {
    ...SETTINGS,
    ...(options.durable === false ? UNSAFE_BUT_FAST : {}),
    ...options.settings,
    listen_addresses: options.isSocketOnly === true ? '' : '127.0.0.1',
    port: String(port),
    // A list: without quotes a comma in the path would end its first entry.
    unix_socket_directories: `"${home.socketFolder.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
  }
  return ['-D', home.cluster, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

async function waitUntilReady(
  home: ServerHome,
  process: ServerProcess,
  options: EmbeddedServerOptions,
): Promise<'ready' | 'ended' | 'late'> {
  let ended = false
  void process.ended.then(() => {
    ended = true
  })
  const deadline = performance.now() + (options.startTimeoutMs ?? 60_000)
  while (performance.now() < deadline && options.signal?.aborted !== true) {
    if (ended) return 'ended'
    if (readPostmasterFile(home.cluster)?.ready) return 'ready'
    await sleep(10)
  }
  return 'late'
}

function sizeOf(path: string): number {
  try {
    const fd = openSync(path, 'r')
    const { size } = fstatSync(fd)
    closeSync(fd)
    return size
  } catch {
    return 0
  }
}

/** At most 8 KiB of what the server wrote since. */
function readFrom(path: string, start: number): string {
  try {
    const fd = openSync(path, 'r')
    const buffer = Buffer.alloc(8192)
    const length = readSync(fd, buffer, 0, buffer.length, start)
    closeSync(fd)
    return buffer.toString('utf8', 0, length)
  } catch {
    // It has written nothing yet; whoever asks says what failed without it.
    return ''
  }
}

/** What the server writes about a folder that is not as it has to be; anything else is told by the usual causes. */
const NO_ROOM: Reason = {
  what: 'the embedded PostgreSQL has no room to start',
  code: 'postgres_not_started',
  remedy: 'Free disk space where the data folder is, and shared memory (/dev/shm); then start again.',
}

const REASONS: readonly (readonly [said: RegExp, reason: Reason])[] = [
  [
    /has (wrong ownership|invalid permissions|group or world access)|Permission denied/,
    {
      what: 'the folder of the embedded PostgreSQL has another owner or mode than it was made with',
      code: 'postgres_not_started',
      remedy:
        'Give postgres/cluster in the data folder, with all in it, back to the account that it had, and mode 0700. Copy data folders with owners and modes: cp -a, rsync -a or tar -p as root.',
    },
  ],
  [/No space left on device|could not resize shared memory/, NO_ROOM],
  [
    /checkpoint record|pg_control|pg_wal|could not (access|open) (the server configuration )?(file|directory)|unexpected EOF/,
    {
      what: 'the folder of the embedded PostgreSQL is not whole, as after a copy of a part of it, or of one that was in use',
      code: 'postgres_folder_broken',
      remedy:
        'Put the whole data folder back from a backup that was made while nothing ran on it. postgres/server.log names what is missing.',
    },
  ],
]

interface Reason {
  readonly what: string
  readonly code: string
  readonly remedy: string
}

/** A page of its log: with less the server can write nothing, and where the disk is full it cannot even say so. */
const LEAST_ROOM_BYTES = 64 * 1024

/** Null where the system does not tell. */
function freeBytesOf(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return null
  }
}

/** @param freeBytes where the server's folder lies; null: not known */
export function notStarted(how: 'ended' | 'late', said: string, freeBytes: number | null): SluiceError {
  const isFull = freeBytes !== null && freeBytes < LEAST_ROOM_BYTES
  const found = REASONS.find(([pattern]) => pattern.test(said))?.[1] ?? (isFull ? NO_ROOM : undefined)
  const usual = how === 'late' ? 'did not become ready in time' : 'ended while it started'
  const { what, code, remedy } = found ?? {
    what: `the embedded PostgreSQL ${usual}`,
    code: 'postgres_not_started',
    remedy:
      'Read postgres/server.log in the data folder; free disk space, shared memory, and the owner and mode of postgres/cluster are the usual causes.',
  }
  return new SluiceError('CONFIG', what, { code, remedy, cause: new Error(said) })
}
