/**
 * The server's process and what becomes of it. The server runs under a shell that holds the reading end of a pipe from
 * this process: when the pipe closes, by `stop` or by our death of whatever kind, the shell stops the server.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { commandLine, isAlive, workingIn } from '@sluice/engine/process-table'
import type { Account } from './postgres-account.ts'

/**
 * SIGINT is PostgreSQL's fast shutdown: transactions are rolled back, the checkpoint is written. A server that has not
 * ended after 30 s gets SIGQUIT, which leaves it to crash recovery. The watcher uses the shell's own `read`, so no other
 * process stays behind, and ends with the server, so that it never signals a later process of the same id.
 */
const SUPERVISOR = `
exec 3<&0 </dev/null
[ "$1" = any ] || ulimit -v "$1" || exit 1
shift
"$@" 3<&- &
server=$!
stop() {
  kill -INT $server 2>/dev/null
  for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    kill -0 $server 2>/dev/null || return
    sleep 1
  done
  kill -QUIT $server 2>/dev/null
}
( trap '' TERM INT HUP; while read -r line <&3; do :; done; stop ) &
watcher=$!
trap 'kill -INT $server 2>/dev/null' TERM INT HUP
code=129
while kill -0 $server 2>/dev/null; do wait $server; code=$?; done
kill -KILL $watcher 2>/dev/null
exit $code
`

export interface ServerExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ServerProcess {
  readonly supervisorPid: number
  /** Resolves when server and supervisor have ended. */
  readonly ended: Promise<ServerExit>
  /** Asks for a fast shutdown; `ended` tells when it is done. May be called again. */
  stop(): void
}

export interface ServerCommand {
  readonly program: string
  readonly args: readonly string[]
  readonly account: Account | null
  readonly logFile: string
  /** Address space of one process; null: any. */
  readonly processBytes: number | null
  /** False lets this process end while the server runs; the server then ends too. */
  readonly keepsProcessAlive: boolean
}

const MAX_LOG_BYTES = 16 * 1024 * 1024

export function startServer(command: ServerCommand): ServerProcess {
  const log = openLog(command.logFile)
  const limit = addressLimit(command.processBytes)
  const child = spawn('/bin/sh', ['-c', SUPERVISOR, 'sluice-postgres', limit, command.program, ...command.args], {
    ...(command.account === null ? {} : { uid: command.account.uid, gid: command.account.gid }),
    cwd: '/',
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['pipe', log, log],
    // A session of its own: Ctrl-C at the terminal is for the runtime, which drains before it stops the server.
    detached: true,
  })
  closeSync(log)
  child.stdin?.on('error', () => undefined)
  if (!command.keepsProcessAlive) letProcessEnd(child)
  const stop = (): void => {
    // Whoever waits for the end must not be ended before it.
    child.ref()
    child.stdin?.end()
  }
  return { supervisorPid: child.pid ?? 0, ended: exitOf(child), stop }
}

/** In KiB, as the shell has it. Only Linux keeps the limit: others refuse to set it. */
function addressLimit(bytes: number | null): string {
  return bytes === null || process.platform !== 'linux' ? 'any' : String(Math.floor(bytes / 1024))
}

function letProcessEnd(child: ChildProcess): void {
  child.unref()
  ;(child.stdin as unknown as { unref?(): void } | null)?.unref?.()
}

function exitOf(child: ChildProcess): Promise<ServerExit> {
  const { promise, resolve } = Promise.withResolvers<ServerExit>()
  child.on('exit', (code, signal) => resolve({ code, signal }))
  child.on('error', () => resolve({ code: null, signal: null }))
  return promise
}

function openLog(path: string): number {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size > MAX_LOG_BYTES) renameSync(path, `${path}.1`)
  return openSync(path, 'a', 0o600)
}

export interface PostmasterFile {
  readonly pid: number
  readonly port: number
  readonly socketFolder: string
  readonly ready: boolean
}

/** PostgreSQL's own note about the running server, or null where there is none or it is half written. */
export function readPostmasterFile(cluster: string): PostmasterFile | null {
  try {
    const lines = readFileSync(join(cluster, 'postmaster.pid'), 'utf8')
      .split('\n')
      .map((line) => line.trim())
    const pid = Number(lines[0])
    if (!Number.isInteger(pid) || pid <= 1) return null
    return { pid, port: Number(lines[3]), socketFolder: lines[4] ?? '', ready: lines[7] === 'ready' }
  } catch {
    return null
  }
}

/**
 * Ends a server that an earlier runtime left on this cluster, and removes what a dead one left. The caller holds the
 * folder's lock, so no living runtime owns that server. A process that merely got the old one's id is left alone.
 */
export async function endLeftover(cluster: string, signal?: AbortSignal): Promise<void> {
  const file = readPostmasterFile(cluster)
  const isServer = (): boolean =>
    file !== null && isAlive(file.pid) && (commandLine(file.pid)?.includes(cluster) ?? false)
  for (const [kill, patienceMs] of [
    // Its supervisor may be stopping it this very moment.
    [null, 1_000],
    ['SIGINT', 20_000],
    ['SIGQUIT', 10_000],
    ['SIGKILL', 5_000],
  ] as const) {
    if (!isServer() || file === null) break
    if (kill !== null) process.kill(file.pid, kill)
    for (let waited = 0; waited < patienceMs && isServer(); waited += 50) await sleep(50, undefined, { signal })
  }
  if (!isServer() && (await endOrphans(cluster, signal))) rmSync(join(cluster, 'postmaster.pid'), { force: true })
}

const ORPHAN_PATIENCE_MS = 10_000

/**
 * A server that was killed leaves processes behind that go on with a statement until they next look around. A second server
 * beside them would spoil what they write; PostgreSQL notices by the file that we remove. False where they do not end.
 */
async function endOrphans(cluster: string, signal?: AbortSignal): Promise<boolean> {
  if (statSync(cluster, { throwIfNoEntry: false }) === undefined) return true
  const orphans = () => workingIn(realpathSync(cluster)).filter(isAlive)
  for (let waited = 0; orphans().length > 0; waited += 50) {
    if (waited >= ORPHAN_PATIENCE_MS) return false
    for (const pid of orphans()) endProcess(pid)
    await sleep(50, undefined, { signal })
  }
  return true
}

/** It may have ended by itself meanwhile. */
function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
