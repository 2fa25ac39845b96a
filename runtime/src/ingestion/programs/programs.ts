/** Starts programs of others in rooms of their own, and hands what they say to the process that asked, unread. */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { withLines } from '@sluice/engine/child-pool'
import { roomCommand } from '@sluice/engine/program-walls'
import { type ProgramEnd, type ProgramRequest, SluiceError } from '@sluice/sdk'
import { descriptorOf } from '../source-child.ts'
import { CONTROL_FD, type FromKeeper, GATE_FD, type KeepMessage } from './keeper-protocol.ts'
import { type AllowedProgram, treesOf } from './program-rules.ts'

const KEEPER = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './keeper.ts' : './keeper.js', import.meta.url))
const MB = 1024 * 1024
/** Of what it may write, which is memory too. */
const FOLDER_BYTES = 64 * MB
const MAX_PROCESSES = 256
const MAX_OPEN_FILES = 1024
const START_MS = 60_000
const MAX_CONTROL_CHARS = 64 * 1024
const MAX_STDERR_CHARS = 2000

export interface ProgramsOptions {
  /** Throws PERMISSION `program_refused`. */
  readonly allowed: (name: string) => AllowedProgram
  readonly charge: (cpuSeconds: number) => void
  /** An id that owns nothing, until then; null where there is none to give. */
  readonly takeUser: (ended: Promise<unknown>) => number | null
}

/** Of one tenant's connection. */
export class Programs {
  readonly #options: ProgramsOptions

  constructor(options: ProgramsOptions) {
    this.#options = options
  }

  /**
   * `take` is given descriptors of its output and of its gate's line, and has some of its own afterwards. The signal ends the program.
   * Throws PERMISSION `program_refused`; whether it could be started is told by how it ends.
   */
  start(request: ProgramRequest, signal: AbortSignal, take: (descriptors: readonly number[]) => void): RunningProgram {
    signal.throwIfAborted()
    const allowed = this.#options.allowed(request.program)
    const { trees, files } = treesOf(allowed)
    const program = new RunningProgram(this.#options.charge, signal)
    // Before it says anything: what is read here is lost to whoever should hear it.
    program.handOver(take)
    program.keep({
      command: allowed.command,
      words: [...request.words, ...allowed.arguments],
      files: request.files,
      userId: this.#options.takeUser(program.gone),
      runTrees: trees,
      readFiles: files,
      memoryBytes: allowed.memory_mb * MB,
      folderBytes: FOLDER_BYTES,
      processes: MAX_PROCESSES,
      openFiles: MAX_OPEN_FILES,
    })
    return program
  }
}

type How = Omit<ProgramEnd, 'addressRefused'>

export class RunningProgram {
  readonly #process: ChildProcess
  readonly #charge: (cpuSeconds: number) => void
  readonly #end = Promise.withResolvers<How>()
  #hasStarted = false
  /** Once all of its processes are gone. */
  readonly gone: Promise<void>
  #knock: () => void = () => {}
  #line = ''
  #stderr = ''
  #told: How | null = null
  #isStopped = false
  readonly #onStart: () => void

  constructor(charge: (cpuSeconds: number) => void, signal: AbortSignal) {
    this.#charge = charge
    const [command = '', ...words] = roomCommand(process.getuid?.() === 0)
    const child = spawn(command, [...words, process.execPath, '--no-warnings', KEEPER], {
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      cwd: '/',
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
      // A terminal's Ctrl-C is for the runtime, which lets what is under way end; programs of others do not leave it to that.
      detached: true,
    })
    this.#process = withLines(child)
    for (const stream of this.#process.stdio) {
      // Only descriptors are wanted of the first and the last; what broke them is told by the end.
      stream?.on('error', () => {})
    }
    this.#process.stdout?.pause()
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      if (this.#stderr.length < MAX_STDERR_CHARS) this.#stderr += chunk.toString('latin1')
    })
    this.#control.on('data', (chunk: Buffer) => this.#hear(chunk.toString('latin1')))
    const late = setTimeout(() => this.#process.kill('SIGKILL'), START_MS)
    const stop = () => this.stop()
    signal.addEventListener('abort', stop, { once: true })
    this.gone = new Promise((resolve) => {
      const over = (why: string) => {
        clearTimeout(late)
        signal.removeEventListener('abort', stop)
        if (this.#hasStarted || this.#isStopped) this.#end.resolve(this.#told ?? { how: 'lost', code: null })
        else this.#end.reject(roomMissing(`${why} ${this.#stderr}`))
        this.#process.stdout?.destroy()
        this.#gate.destroy()
        // Ended in its first moments, it leaves the room's keeper behind, which goes when nobody tells it anything any more.
        this.#control.destroy()
        resolve()
      }
      this.#process.once('error', (error) => over(error.message))
      this.#process.once('exit', (code, by) => over(`it ended with ${code ?? by}`))
    })
    this.#onStart = () => clearTimeout(late)
    // Told to who asks for it, if anybody does.
    this.ended.catch(() => undefined)
  }

  /** Rejected with CONFIG `walls_missing` where it could not be started. */
  get ended(): Promise<How> {
    return this.#end.promise
  }

  keep(message: KeepMessage): void {
    this.#control.write(`${JSON.stringify(message)}\n`)
  }

  onKnock(knock: () => void): void {
    this.#knock = knock
  }

  /** Its output, and the line of its gate; whoever takes them has descriptors of its own. */
  handOver(take: (descriptors: readonly number[]) => void): void {
    const output = this.#process.stdout as unknown as Socket
    try {
      take([descriptorOf(output), descriptorOf(this.#gate)])
    } catch (error) {
      this.stop()
      throw error
    }
    output.destroy()
    this.#gate.destroy()
  }

  stop(): void {
    this.#isStopped = true
    this.#process.kill('SIGKILL')
  }

  get #control(): Socket {
    return this.#process.stdio[CONTROL_FD] as Socket
  }

  get #gate(): Socket {
    return this.#process.stdio[GATE_FD] as Socket
  }

  /** The keeper hears nothing of what the program says; its lines are ours. */
  #hear(text: string): void {
    this.#line += text
    if (this.#line.length > MAX_CONTROL_CHARS) {
      this.stop()
      return
    }
    for (let at = this.#line.indexOf('\n'); at >= 0; at = this.#line.indexOf('\n')) {
      const said = JSON.parse(this.#line.slice(0, at)) as FromKeeper
      this.#line = this.#line.slice(at + 1)
      if (said.kind === 'started') {
        this.#hasStarted = true
        this.#onStart()
      }
      if (said.kind === 'knock') this.#knock()
      if (said.kind === 'cpu') this.#charge(said.seconds)
      if (said.kind === 'ended') this.#told = { how: said.how, code: said.code }
    }
  }
}

function roomMissing(why: string): SluiceError {
  return new SluiceError('CONFIG', 'a program could not be given a room of its own behind walls', {
    code: 'walls_missing',
    remedy:
      'The operator lets the runtime make namespaces: as root with CAP_SYS_ADMIN, or as a user where the kernel allows user namespaces, with the command unshare of util-linux.',
    cause: new Error(why),
  })
}

export function programsUnknown(): SluiceError {
  return new SluiceError('PERMISSION', 'connectors of this type may start no program', {
    code: 'program_refused',
    remedy: 'The operator names programs for this type of connector under programs in sluice.yaml.',
  })
}

export function tooManyPrograms(): SluiceError {
  return new SluiceError('QUOTA', 'the connector starts too many programs at once', {
    code: 'too_many_programs',
    remedy: 'Report it to whoever wrote the connector.',
  })
}
