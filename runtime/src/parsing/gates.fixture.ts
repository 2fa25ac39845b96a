/** The program of a thread whose task says when it has begun, and ends when it is let go. */
import { answerTasks } from './parse-threads.ts'

answerTasks({
  /** Of two words of shared memory: whether it has begun, and whether it may end. */
  gate: (gate: Int32Array) => {
    Atomics.store(gate, 0, 1)
    Atomics.wait(gate, 1, 0)
  },
})
