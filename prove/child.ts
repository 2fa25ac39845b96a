/** Programs that a proof runs: bounded in time, ended with everything they started, and heard line by line. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const KEPT_LINES = 60
/** Between asking a program to end and ending it. */
const GRACE_MS = 20_000
/** Between its end and that of what it printed. */
const LAST_LINES_MS = 2_000

export interface ChildOptions {
  readonly cwd: string
  /** Beside what this process has; undefined takes a variable away. */
  readonly env?: NodeJS.ProcessEnv
  readonly timeoutMs?: number
  readonly signal: AbortSignal
  readonly onLine?: (line: string) => void
}

export interface Ended {
  /** Null where a signal ended it. */
  readonly code: number | null
  readonly isTimedOut: boolean
  /** The last lines of both streams. */
  readonly tail: string
  readonly seconds: number
}

/** A group of its own, so that one signal reaches what it has started. Throws where it cannot run or is aborted. */
export async function runChild(command: string, args: readonly string[], options: ChildOptions): Promise<Ended> {
  const { cwd, env = {}, timeoutMs, signal, onLine = () => {} } = options
  signal.throwIfAborted()
  const startedMs = performance.now()
  const tail: string[] = []
  const child = spawn(command, args, {
    cwd,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      if (tail.push(line) > KEPT_LINES) tail.shift()
      onLine(line)
    })
  }
  let isTimedOut = false
  const end = () => {
    killGroup(child.pid, 'SIGTERM')
    setTimeout(() => killGroup(child.pid, 'SIGKILL'), GRACE_MS).unref()
  }
  const expire = () => {
    isTimedOut = true
    end()
  }
  const timer = timeoutMs === undefined ? null : setTimeout(expire, timeoutMs)
  signal.addEventListener('abort', end, { once: true })
  try {
    const closed = new Promise((resolve) => child.once('close', resolve))
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject).once('exit', resolve)
    })
    // What it left running may hold its streams open for good.
    await Promise.race([closed, sleep(LAST_LINES_MS)])
    // What outlives a test that failed or was stopped would take the processor from the next.
    if (code !== 0) killGroup(child.pid, 'SIGKILL')
    signal.throwIfAborted()
    return { code, isTimedOut, tail: tail.join('\n'), seconds: (performance.now() - startedMs) / 1000 }
  } finally {
    if (timer) clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
}

function killGroup(pid: number | undefined, name: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, name)
  } catch {
    // It has ended already.
  }
}
