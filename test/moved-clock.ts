/** Loaded first into a process: its `Date` is off by as many milliseconds as the file of TEST_CLOCK_FILE says at the moment. */
import { readFileSync } from 'node:fs'

const file = process.env['TEST_CLOCK_FILE'] ?? ''
const Real = Date
const READ_EVERY_MS = 20

let offsetMs = 0
let readAtMs = Number.NEGATIVE_INFINITY

function nowMs(): number {
  if (performance.now() - readAtMs > READ_EVERY_MS) {
    readAtMs = performance.now()
    offsetMs = Number(readFileSync(file, 'utf8')) || 0
  }
  return Real.now() + offsetMs
}

globalThis.Date = class extends Real {
  constructor(...parts: readonly unknown[]) {
    super(...((parts.length === 0 ? [nowMs()] : parts) as [number]))
  }

  static override now(): number {
    return nowMs()
  }
} as DateConstructor
