/**
 * Loaded first into a runtime that a test has started: ends it when that test's process is gone, however that went. A runtime
 * has a session of its own, which no signal to the test reaches. JavaScript, since Node's reader of TypeScript takes 12 MiB
 * and 75 ms, and nothing else of a runtime whose compiled code is kept needs it.
 */
import { isMainThread } from 'node:worker_threads'

const LOOK_EVERY_MS = 500
/** For an orderly end; then whatever is left of its session is killed. */
const END_WITHIN_MS = 60_000

const parent = Number(process.env['TEST_PROCESS_ID'])

// Threads and processes that a runtime starts may load it, too.
if (isMainThread && process.argv[2] === 'start') {
  const look = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(look)
    process.kill(process.pid, 'SIGTERM')
    setTimeout(() => process.kill(-process.pid, 'SIGKILL'), END_WITHIN_MS).unref()
  }, LOOK_EVERY_MS)
  look.unref()
}
