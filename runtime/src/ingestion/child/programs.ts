/** In the walled child: programs that its connector starts, and the gate through which they reach the connection's addresses. */
import { Socket } from 'node:net'
import type { DescriptorLine } from '@sluice/engine/descriptors'
import type { NetworkPolicy, ProgramEnd, ProgramRequest, ProgramStarter, RunningProgram } from '@sluice/sdk'
import { DESCRIPTOR_FD } from '../source-protocol.ts'
import { Gate } from './gate.ts'
import type { ParentLine } from './parent-line.ts'

export class ChildPrograms implements ProgramStarter {
  readonly #line: ParentLine
  readonly #descriptors: DescriptorLine
  readonly #network: NetworkPolicy
  readonly #gates = new Map<number, Gate>()
  /** Of a program whose number has come, and which nobody has looked at yet. */
  readonly #early = new Map<number, number>()

  #last = 0

  constructor(line: ParentLine, descriptors: DescriptorLine, network: NetworkPolicy) {
    this.#line = line
    this.#descriptors = descriptors
    this.#network = network
  }

  async start(request: ProgramRequest, signal: AbortSignal): Promise<RunningProgram> {
    signal.throwIfAborted()
    const program = (await this.#line.ask({ what: 'program', request })) as number
    const output = new Socket({ fd: this.#descriptors.receive(DESCRIPTOR_FD), readable: true, writable: false })
    const gate = new Gate(this.#descriptors, this.#descriptors.receive(DESCRIPTOR_FD), this.#network)
    this.#gates.set(program, gate)
    this.#last = program
    for (let knocks = this.#early.get(program) ?? 0; knocks > 0; knocks -= 1) gate.knock()
    this.#early.delete(program)
    // One that has ended need not be stopped.
    const stop = () => void this.#line.ask({ what: 'program-stop', program }).catch(() => undefined)
    signal.addEventListener('abort', stop, { once: true })
    // What broke it is told by its end.
    output.on('error', () => {})
    if (signal.aborted) stop()
    const ended = this.#line.ask({ what: 'program-end', program }).then((end) => {
      signal.removeEventListener('abort', stop)
      gate.close()
      this.#gates.delete(program)
      return { ...(end as Omit<ProgramEnd, 'addressRefused'>), addressRefused: gate.hasRefused }
    })
    // Told to who waits for it, which a caller that has stopped does not.
    ended.catch(() => undefined)
    return { output, ended, stop }
  }

  knock(program: number): void {
    const gate = this.#gates.get(program)
    if (gate) gate.knock()
    else if (program > this.#last) this.#early.set(program, (this.#early.get(program) ?? 0) + 1)
  }
}
