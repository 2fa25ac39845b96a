import { type ChildProcess, spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { type PooledChild, withLines } from '@sluice/engine/child-pool'
import { CpuWatch } from '@sluice/engine/cpu-watch'
import type { DescriptorLine } from '@sluice/engine/descriptors'
import { SluiceError } from '@sluice/sdk'
import { SOURCE_CHILD_ENTRY } from './source-bundle.ts'
import { CHANNEL_FD, DESCRIPTOR_FD, type Frame, FrameReader, jsonFrame, type ToSourceChild } from './source-protocol.ts'

/** Of one thread, so that there is one to put behind walls, and none that uses the event loop while it is made anew. */
const FLAGS = ['--disable-sigusr1', '--no-warnings', '--single-threaded']
const MAX_STDERR_CHARS = 4096
/** What the runtime has said and the child has not taken. It is asked for little, so that a child that is well never has it. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024
const MAX_CONNECTING = 16
const CONNECT_TIMEOUT_MS = 120_000
/** ECONNREFUSED of Linux: for failures that have no number of the system's. */
const NO_CONNECTION = -111

export interface SourceChildProgram {
  /** URL of the module of the connector that it will likely be asked for: it is loaded at the start. Null: none is. */
  readonly module: string | null
  /** What `bundleSourceChild` wrote; without it the modules as they lie here. */
  readonly childBundle?: string
  /** A folder of the runtime's own for compiled code. */
  readonly codeCacheDir?: string
}

/** One process that reads one source, and its lines to it, from its start to its end. */
export class SourceChild implements PooledChild {
  readonly #process: ChildProcess
  readonly #channel: Socket
  readonly #frames: AsyncGenerator<Frame, void>
  readonly #descriptors: DescriptorLine
  readonly #connecting = new Set<Socket>()
  readonly ended: Promise<string>
  readonly ready: Promise<void>
  readonly cpu = new CpuWatch(this)
  #stderr = ''
  #alive = true

  /** Throws where this process may not open more files. */
  constructor(descriptors: DescriptorLine, program: SourceChildProgram) {
    const { module, childBundle = SOURCE_CHILD_ENTRY, codeCacheDir } = program
    this.#descriptors = descriptors
    const child = spawn(process.execPath, [...FLAGS, childBundle, ...(module === null ? [] : [module])], {
      env: environment(codeCacheDir),
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    })
    this.#process = withLines(child)
    this.#channel = this.#process.stdio[CHANNEL_FD] as Socket
    // A child that ends early breaks its lines; its end is what gets reported, not the broken line.
    this.#channel.on('error', () => {})
    this.#descriptorLine?.on('error', () => {})
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      if (this.#stderr.length < MAX_STDERR_CHARS) this.#stderr += chunk.toString('latin1')
    })
    this.#frames = readFrames(this.#channel)
    this.ended = this.#watchEnd()
    this.ready = this.#watchReady()
    // Whoever takes the child hears of it; a warm one that dies unseen must not bring the process down.
    this.ready.catch(() => {})
  }

  get pid(): number {
    return this.#process.pid ?? -1
  }

  /** What the child said on its error stream: for the log of this process only. */
  get stderr(): string {
    return this.#stderr
  }

  send(message: ToSourceChild): void {
    if (!this.#alive) return
    this.#channel.write(jsonFrame(message))
    if (this.#channel.writableLength > MAX_UNREAD_BYTES) this.kill()
  }

  /** The next frame; null once the child is gone. Rejected with BrokenFrame. To be waited for before it is called again. */
  async next(): Promise<Frame | null> {
    const { value } = await this.#frames.next()
    return value ?? null
  }

  /** Connects, and hands the socket over. Gives 0, or the system's error number; never rejected. */
  async lend(address: string, port: number, family: 4 | 6): Promise<number> {
    if (this.#connecting.size >= MAX_CONNECTING) return NO_CONNECTION
    const socket = connect({ host: address, port, family })
    // So that not a byte of the source is read here.
    socket.pause()
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy(new Error('it took too long')))
    this.#connecting.add(socket)
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once('connect', resolve).once('error', reject)
        socket.once('close', () => reject(new Error('closed')))
      })
      this.#descriptors.send(descriptorOf(this.#descriptorLine), descriptorOf(socket))
      return 0
    } catch (error) {
      const { errno } = error as NodeJS.ErrnoException
      return errno === undefined || errno >= 0 ? NO_CONNECTION : errno
    } finally {
      this.#connecting.delete(socket)
      // The child has a descriptor of its own by now: the connection stays.
      socket.destroy()
    }
  }

  /** Hands descriptors over, which stay the caller's to close. Throws where the child takes none. */
  handOver(descriptors: readonly number[]): void {
    if (!this.#alive) throw new Error('the process is gone')
    for (const descriptor of descriptors) this.#descriptors.send(descriptorOf(this.#descriptorLine), descriptor)
  }

  kill(): void {
    if (!this.#alive) return
    this.cpu.look()
    this.#process.kill('SIGKILL')
  }

  get #descriptorLine(): Socket | undefined {
    return this.#process.stdio[DESCRIPTOR_FD] as Socket | undefined
  }

  async #watchReady(): Promise<void> {
    // How the process ended, and what it said, is told below.
    const first = await this.next().catch(() => null)
    if (first?.type === 'json' && (first.value as { kind?: unknown } | null)?.kind === 'ready') return
    this.kill()
    const how = await this.ended
    throw new SluiceError('TRANSIENT', 'the process that is to read the source ended before it was ready', {
      code: 'source_reader_failed',
      cause: new Error(`it ended ${how}: ${this.#stderr}`),
    })
  }

  #watchEnd(): Promise<string> {
    return new Promise((resolve) => {
      const end = (how: string) => {
        this.#alive = false
        for (const socket of this.#connecting) socket.destroy()
        this.#descriptorLine?.destroy()
        resolve(how)
      }
      this.#process.once('error', (error) => end(`it could not be started: ${error.message}`))
      this.#process.once('exit', (code, signal) => end(signal ? `by ${signal}` : `with code ${code}`))
    })
  }
}

/**
 * It is the whole environment of a child: a pool of one thread, which can be put behind walls, and the authorities that
 * the operator trusts.
 */
function environment(codeCacheDir: string | undefined): NodeJS.ProcessEnv {
  const authorities = process.env['NODE_EXTRA_CA_CERTS']
  return {
    UV_THREADPOOL_SIZE: '1',
    ...(codeCacheDir === undefined ? {} : { NODE_COMPILE_CACHE: codeCacheDir }),
    ...(authorities === undefined ? {} : { NODE_EXTRA_CA_CERTS: authorities }),
  }
}

/** Ends without an error where the stream does, however it does. */
async function* readFrames(channel: Socket): AsyncGenerator<Frame, void> {
  const reader = new FrameReader()
  for await (const chunk of untilClosed(channel)) yield* reader.take(chunk)
}

async function* untilClosed(channel: Socket): AsyncGenerator<Uint8Array> {
  try {
    yield* channel as AsyncIterable<Uint8Array>
  } catch {
    // Its process is gone, which `ended` tells.
  }
}

/** Node has no name for the descriptor under a socket. */
export function descriptorOf(socket: Socket | undefined): number {
  const descriptor = (socket as unknown as { _handle?: { fd?: number } } | undefined)?._handle?.fd
  if (descriptor === undefined || descriptor < 0) throw new Error('the socket has been closed')
  return descriptor
}
