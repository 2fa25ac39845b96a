/** Why reading a source ended early, in words for whoever owns the connection. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { BrokenAnswer } from './source-answers.ts'
import { BrokenFrame } from './source-protocol.ts'

/** `how` is for the log of this process. */
export function invalidAnswer(how: string): SluiceError {
  return new SluiceError('INVALID_DATA', 'the source sent what its protocol does not allow, or what has no end', {
    code: 'source_answer_invalid',
    remedy:
      'Check that host and port are those of a server of this type, and that nothing between alters what it sends.',
    cause: new Error(how),
  })
}

export function sourceTooLarge(): SluiceError {
  return new SluiceError('INVALID_DATA', 'what the source sent at once needs more memory than it may take', {
    code: 'source_memory_exceeded',
    remedy:
      'Let the connection offer fewer tables, columns or larger values at once, or let the operator raise limits.source_memory_mb.',
  })
}

export function sourceTooSlow(timeoutMs: number): SluiceError {
  return new SluiceError('TRANSIENT', `the source did not answer within ${timeoutMs} ms`, {
    code: 'source_timeout',
    remedy: 'Try again when the source is less busy, or let the operator raise the limits of sources.',
  })
}

export function readersBusy(cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'all processes that read sources are busy', {
    code: 'source_readers_busy',
    remedy: 'Try again in a moment.',
    retryAfterMs: 1000,
    cause,
  })
}

/** It was started, and is not ready in time: a machine with too much to do. */
export function readerLate(timeoutMs: number, cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', `the process that reads the source was not ready within ${timeoutMs} ms`, {
    code: 'source_reader_late',
    remedy: 'Try again; if it keeps happening, the machine has too much to do: let the operator look at its load.',
    retryAfterMs: 1000,
    cause,
  })
}

export function readerFailed(how: string): SluiceError {
  return new SluiceError('TRANSIENT', 'the process that read the source ended in the middle of the work', {
    code: 'source_reader_failed',
    remedy: 'Try again; if it keeps happening, let the operator look into the log of the runtime.',
    cause: new Error(how),
  })
}

export function stopped(reason: unknown): SluiceError {
  if (isSluiceError(reason)) return reason
  return new SluiceError('TRANSIENT', 'the read of the source was stopped', {
    code: 'aborted',
    remedy: 'Nothing is wrong with the source: start it again.',
    cause: reason,
  })
}

/** An error of the lines to the child. */
export function lineFailure(error: unknown): unknown {
  return error instanceof BrokenFrame || error instanceof BrokenAnswer ? invalidAnswer(error.message) : error
}
