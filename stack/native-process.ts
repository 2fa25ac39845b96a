/**
 * A server of somebody else's, started as a child in a process group of its own, so that stopping it ends whatever it
 * started. What it prints is kept in a file; the last lines of it are in the error when it does not become ready.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { open, readFile } from 'node:fs/promises'

const POLL_MS = 100
const GRACE_MS = 15_000
const SHOWN_LOG_CHARACTERS = 4_000

export interface NativeProcess {
  readonly pid: number
  /** Ends the whole process group; repeatable. */
  stop(): Promise<void>
}

export interface StartOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly cwd?: string
  readonly logFile: string
  /** A real request; it may throw while the server is not up. */
  ready(): Promise<boolean>
  readonly readyTimeoutMs: number
}

/** Throws with the end of the server's log when it ends, or is not ready in time. Nothing is left running then. */
export async function startNative(options: StartOptions): Promise<NativeProcess> {
  const log = await open(options.logFile, 'a')
  const child = spawn(options.command, [...options.args], {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ['ignore', log.fd, log.fd],
    detached: true,
  })
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`${options.name} ended with ${code} before it was ready`)))
  })
  // Told to whoever waits until it is ready.
  failed.catch(() => undefined)
  const running = asNative(child)
  try {
    await Promise.race([failed, waitUntilReady(options)])
    return running
  } catch (error) {
    await running.stop()
    const shown = (await readFile(options.logFile, 'utf8')).slice(-SHOWN_LOG_CHARACTERS)
    throw new Error(`${options.name} did not start. Its log ends:\n${shown}`, { cause: error })
  } finally {
    await log.close()
  }
}

/** Throws where it is not ready in time. */
export async function waitUntilReady({
  name,
  ready,
  readyTimeoutMs,
}: Pick<StartOptions, 'name' | 'ready' | 'readyTimeoutMs'>): Promise<void> {
  const deadline = Date.now() + readyTimeoutMs
  while (Date.now() < deadline) {
    if (await ready().catch(() => false)) return
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  throw new Error(`${name} was not ready within ${readyTimeoutMs} ms`)
}

function asNative(child: ChildProcess): NativeProcess {
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  const signal = (name: NodeJS.Signals) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // The group has ended already.
    }
  }
  return {
    pid: child.pid ?? 0,
    async stop() {
      signal('SIGTERM')
      const killer = setTimeout(signal, GRACE_MS, 'SIGKILL')
      await ended
      clearTimeout(killer)
      signal('SIGKILL')
    },
  }
}
