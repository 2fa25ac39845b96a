/** What may go wrong with a program of others, in our own words: nothing that it says is passed on, since it holds the config. */
import { type ProgramEnd, SluiceError } from '@sluice/sdk'

/** What the program says of its own failures. */
export type FailureType = 'config_error' | 'transient_error' | 'system_error'

export function reported(type: FailureType): SluiceError {
  switch (type) {
    case 'config_error':
      return new SluiceError('CONFIG', 'the connector says that its config is wrong', {
        code: 'source_config_refused',
        remedy:
          'Correct config as the connector’s documentation describes: addresses, secrets, and rights of the login.',
      })
    case 'transient_error':
      return new SluiceError('TRANSIENT', 'the connector says that its source cannot be read now', {
        code: 'source_unavailable',
        remedy: 'Try again later.',
      })
    case 'system_error':
      return new SluiceError('TRANSIENT', 'the connector failed', PROGRAM_FAILED)
  }
}

const PROGRAM_FAILED = {
  code: 'source_program_failed',
  remedy:
    'Try again; if it keeps happening, the operator runs the connector by hand with the same config, since nothing that it says is kept here.',
} as const

/** Of a program that ended otherwise than by finishing. */
export function endedEarly({ how, code }: ProgramEnd): SluiceError {
  switch (how) {
    case 'memory':
      return new SluiceError('INVALID_DATA', 'the connector needs more memory than it may take', {
        code: 'source_memory_exceeded',
        remedy: 'Read fewer tables or smaller pages at once, or let the operator raise memory_mb of the program.',
      })
    case 'processes':
      return new SluiceError('INVALID_DATA', 'the connector starts more processes than it may', PROGRAM_FAILED)
    case 'lost':
      return new SluiceError('TRANSIENT', 'the connector was ended in the middle of the work', {
        code: 'source_reader_failed',
        remedy: 'Try again; if it keeps happening, let the operator look into the log of the runtime.',
      })
    case 'killed':
      return new SluiceError('TRANSIENT', 'the connector was killed in the middle of the work', PROGRAM_FAILED)
    case 'exited':
      return new SluiceError('TRANSIENT', `the connector failed with exit code ${code}`, PROGRAM_FAILED)
  }
}

export function addressRefused(): SluiceError {
  return new SluiceError('PERMISSION', 'the connector wanted to go where connections may not go', {
    code: 'address_refused',
    remedy: 'Use an address of the public internet, or let the operator allow the range under network.allow.',
  })
}

/** It spoke, and not as the protocol says. `what` is in our words. */
export function answerInvalid(what: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the connector does not keep its protocol: ${what}`, {
    code: 'source_answer_invalid',
    remedy: 'Check that the program is a source connector of Airbyte’s protocol, and of a version that works.',
  })
}

export function silent(silenceMs: number): SluiceError {
  return new SluiceError('TRANSIENT', `the connector brought nothing for ${silenceMs / 1000} s`, {
    code: 'source_timeout',
    remedy: 'Try again when the source is less busy, or raise silence_s.',
  })
}

export function stateTooLarge(): SluiceError {
  return new SluiceError('QUOTA', 'the position that the connector keeps is larger than 48 KiB', {
    code: 'source_too_large',
    remedy: 'Use mode: full in inputs.yaml, or let the connector read fewer partitions.',
  })
}

export function requestInvalid(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'source_request_invalid', remedy: 'Discover again.' })
}

export function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted)
    throw new SluiceError('TRANSIENT', 'the caller has left', { code: 'aborted', remedy: 'Start it again.' })
}

export function noPrograms(): SluiceError {
  return new SluiceError('UNSUPPORTED', 'programs of others cannot be run here', {
    code: 'unsupported',
    remedy: 'Let the operator allow the connector under programs.airbyte in sluice.yaml.',
  })
}
