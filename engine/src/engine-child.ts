import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { SluiceError } from '@sluice/sdk'
import { CHILD_ENTRY } from './child-bundle.ts'
import type { FromChild, ToChild } from './protocol.ts'
import { withLines } from './walls/child-pool.ts'
import { CpuWatch } from './walls/cpu-watch.ts'
import { closeQuietly, type OpenPipe, type Pipe } from './walls/pipe.ts'

/**
 * DuckDB's calls run on the threads of Node's pool. With a single one there is a single thread to put behind the walls.
 * It is the whole environment of a child.
 */
const ENVIRONMENT = { UV_THREADPOOL_SIZE: '1' } as const
const MAX_STDERR_CHARS = 4096

export interface ChildProgram {
  /** What `bundleChild` wrote; without it the modules as they lie here. */
  readonly childBundle?: string
  /** A folder of the runtime's own for compiled code: a child that finds it there starts in a third of the time. */
  readonly codeCacheDir?: string
}

/** One child process and its pipes, from its start to its end. */
export class EngineChild {
  readonly #process: ChildProcess
  readonly #input: Socket
  readonly #output: Socket
  readonly #ended: Promise<string>
  readonly #ready: Promise<void>
  readonly cpu = new CpuWatch(this)
  #stderr = ''
  #alive = true
  #hasJob = false
  #listener: ((message: FromChild) => void) | null = null

  /** Throws where this process may not open more files. */
  constructor(openPipe: OpenPipe, program: ChildProgram) {
    const { child, input, output } = started(openPipe, program)
    this.#process = child
    closeQuietly(input.readFd)
    closeQuietly(output.writeFd)
    this.#input = new Socket({ fd: input.writeFd, readable: false, writable: true })
    this.#output = new Socket({ fd: output.readFd, readable: true, writable: false })
    // A child that ends early breaks its pipes; its end is what gets reported, not the broken pipe.
    this.#input.on('error', () => {})
    this.#output.on('error', () => {})
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      if (this.#stderr.length < MAX_STDERR_CHARS) this.#stderr += chunk.toString('latin1')
    })
    this.#process.on('message', (message: FromChild) => this.#listener?.(message))
    this.#ended = this.#watchEnd()
    this.#ready = this.#watchReady()
    // Whoever takes the child hears of it; a warm one that dies unseen must not bring the process down.
    this.#ready.catch(() => {})
  }

  get pid(): number {
    return this.#process.pid ?? -1
  }

  get alive(): boolean {
    return this.#alive
  }

  /** Fulfilled, with how it ended, when the process is gone. Never rejected. */
  get ended(): Promise<string> {
    return this.#ended
  }

  /** What the child said on its error stream: for the log of this process only. */
  get stderr(): string {
    return this.#stderr
  }

  get input(): Socket {
    return this.#input
  }

  get output(): Socket {
    return this.#output
  }

  onMessage(listener: (message: FromChild) => void): void {
    this.#listener = listener
  }

  send(message: ToChild): void {
    this.#hasJob = true
    this.#process.send(message, () => {
      // A child that is gone is reported by `ended`.
    })
  }

  /** Fulfilled when the child can take a job; rejected when it ends before that. */
  get ready(): Promise<void> {
    return this.#ready
  }

  kill(): void {
    if (!this.#alive) return
    this.cpu.look()
    this.#process.kill('SIGKILL')
  }

  #watchReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#listener = (message) => message.kind === 'ready' && resolve()
      void this.#ended.then((how) => reject(startFailed(how, this.#stderr)))
    })
  }

  #watchEnd(): Promise<string> {
    return new Promise((resolve) => {
      const end = (how: string) => {
        this.#alive = false
        this.#input.destroy()
        // With a job, what is left in the pipe belongs to the reader.
        if (!this.#hasJob) this.#output.destroy()
        resolve(how)
      }
      this.#process.once('error', (error) => end(`it could not be started: ${error.message}`))
      this.#process.once('exit', (code, signal) => end(signal ? `by ${signal}` : `with code ${code}`))
    })
  }
}

/** The process, and the pipes of which it has one end each; none of them is left open where it could not be started. */
function started(openPipe: OpenPipe, { childBundle = CHILD_ENTRY, codeCacheDir }: ChildProgram) {
  const pipes: Pipe[] = []
  const open = (): Pipe => {
    const pipe = openPipe()
    pipes.push(pipe)
    return pipe
  }
  try {
    const [input, output] = [open(), open()]
    const child = spawn(process.execPath, ['--disable-sigusr1', '--no-warnings', childBundle], {
      env: codeCacheDir === undefined ? ENVIRONMENT : { ...ENVIRONMENT, NODE_COMPILE_CACHE: codeCacheDir },
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc', input.readFd, output.writeFd],
      serialization: 'json',
    })
    return { child: withLines(child), input, output }
  } catch (error) {
    for (const { readFd, writeFd } of pipes) [readFd, writeFd].forEach(closeQuietly)
    throw error
  }
}

function startFailed(how: string, stderr: string): SluiceError {
  const cause = new Error(`the child ended ${how}: ${stderr}`)
  const message = 'an engine process ended before it was ready'
  // What was killed, as for want of memory, may start the next time; what ended by itself will not.
  if (how.startsWith('by ')) return new SluiceError('TRANSIENT', message, { code: 'engine_crashed', cause })
  return new SluiceError('INTERNAL', message, { code: 'engine_start_failed', cause })
}
