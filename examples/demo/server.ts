/** The runtime that a demo starts: the same command as `npm start`, on a folder and a port of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'

export interface Server {
  readonly url: string
  readonly process: ChildProcess
}

export interface ServerOptions {
  /** Default: any that is free. */
  readonly port?: string
  readonly env?: Readonly<Record<string, string>>
  /** Where its log goes, an open file; default: standard error. */
  readonly log?: number
  /** Whether it stays when somebody presses Ctrl-C, and is ended by the demo. Default false. */
  readonly isApart?: boolean
  /** Is told of the process before that serves. */
  readonly onSpawn?: (child: ChildProcess) => void
}

export async function startServer(dataDirectory: string, options: ServerOptions = {}): Promise<Server> {
  const launcher = join(import.meta.dirname, '../../runtime/bin/sluice.js')
  const flags = ['--data-dir', dataDirectory, '--port', options.port ?? '0']
  const child = spawn(process.execPath, [launcher, 'start', ...flags], {
    stdio: ['ignore', options.log ?? 'pipe', options.log ?? 'inherit'],
    env: { ...process.env, SLUICE_LOG__LEVEL: 'warn', ...options.env },
    detached: options.isApart ?? false,
  })
  options.onSpawn?.(child)
  return { url: await addressOf(child, join(dataDirectory, 'runtime.json')), process: child }
}

/** One that nobody listens at now. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })
}

/** A runtime that was killed has left its address behind; it counts once it is that of this one. */
async function addressOf(child: ChildProcess, file: string): Promise<string> {
  for (let attempt = 0; attempt < 2400; attempt += 1) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`)
    const text = await readFile(file, 'utf8').catch(() => '')
    const found = text.endsWith('}') ? (JSON.parse(text) as { readonly url: string; readonly pid: number }) : null
    if (found?.pid === child.pid) return found?.url ?? ''
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the server did not start within two minutes')
}

/** Resolves when it has ended, asked to by this signal or not. */
export async function endProcess(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill(signal)
  await ended
}
