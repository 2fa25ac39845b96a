/** The program of a thread with tasks that wait for whoever gave them. */
import { answerTasks } from './parse-threads.ts'

answerTasks({
  /** Gives what its question was answered. */
  ask: (question: string, ask) => ask(question),
  /** Of two words of shared memory: whether it has begun, and whether it may end. */
  gate: (gate: Int32Array) => {
    Atomics.store(gate, 0, 1)
    Atomics.wait(gate, 1, 0)
  },
})
