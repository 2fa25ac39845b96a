/** What went wrong with a cluster, in words that say what to do. Names of topics are quoted: a cluster may send anything. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import {
  aborted,
  bare,
  connectorClosed,
  DEFECT,
  LOST,
  lineMeaning,
  type Meaning,
  PasswordWithheld,
} from '../server/failure.ts'
import { BrokenAnswer } from './wire/bytes.ts'

/** A number by which Kafka says what is wrong. */
export class KafkaRefusal extends Error {
  override readonly name = 'KafkaRefusal'
  readonly code: number
  readonly asked: string

  constructor(code: number, asked: string) {
    super(`${asked} was answered with ${code}`)
    this.code = code
    this.asked = asked
  }
}

/** The server has closed the line, or it broke. */
export class LineLost extends Error {
  override readonly name = 'LineLost'
}

export const ERRORS = {
  offsetOutOfRange: 1,
  unknownTopic: 3,
  topicUnauthorized: 29,
  clusterUnauthorized: 31,
  unsupportedMechanism: 33,
  loginRefused: 58,
  unknownTopicId: 100,
  otherTopicId: 103,
} as const

/** Of a partition that is led by another broker by now, or is about to be. */
export const MOVED: ReadonlySet<number> = new Set([5, 6, 7, 8, 9, 13, 56, 74, 75, 78])

const REFUSALS: Readonly<Record<number, Meaning>> = {
  [ERRORS.topicUnauthorized]: {
    kind: 'PERMISSION',
    code: 'source_permission_denied',
    what: 'the login may not read this topic',
    remedy: 'Give the login READ and DESCRIBE on the topic.',
  },
  [ERRORS.clusterUnauthorized]: {
    kind: 'PERMISSION',
    code: 'source_permission_denied',
    what: 'the login may not do this in the cluster',
    remedy: 'Give the login READ and DESCRIBE on the topics.',
  },
  [ERRORS.unsupportedMechanism]: {
    kind: 'CONFIG',
    code: 'source_login_refused',
    what: 'the brokers do not take this mechanism of login',
    remedy: 'Name in mechanism one that they have enabled.',
  },
  [ERRORS.loginRefused]: {
    kind: 'CONFIG',
    code: 'source_login_refused',
    what: 'the brokers refuse the login',
    remedy: 'Check user, password and mechanism.',
  },
}

const MAX_NAME_CHARACTERS = 200

export function quotedTopic(name: string): string {
  return JSON.stringify(name.toWellFormed().slice(0, MAX_NAME_CHARACTERS))
}

export function kafkaFailure(error: unknown, where: string, signal?: AbortSignal): SluiceError {
  if (isSluiceError(error)) return error
  if (signal?.aborted === true) return aborted(signal.reason)
  const { kind, code, what, remedy } = meaningOf(error)
  return new SluiceError(kind, `${where}: ${what}`, { code, remedy, cause: bare(error) })
}

function meaningOf(error: unknown): Meaning {
  const line = lineMeaning(error)
  if (line !== null) return line
  if (error instanceof KafkaRefusal)
    return (
      REFUSALS[error.code] ?? {
        kind: 'TRANSIENT',
        code: 'source_broken',
        what: `${error.message}, an error of Kafka’s own numbering`,
        remedy: 'Try again; if it keeps happening, look into the logs of the brokers.',
      }
    )
  if (error instanceof BrokenAnswer)
    return {
      kind: 'INVALID_DATA',
      code: 'source_answer_invalid',
      what: error.message,
      remedy: 'Check that the brokers are Kafka 3.1 or later, and that nothing between alters what they send.',
    }
  if (error instanceof LineLost) return LOST
  if (error instanceof PasswordWithheld)
    return {
      kind: 'CONFIG',
      code: 'cleartext_password_refused',
      what: 'the password would travel in clear',
      remedy: 'Use tls, or a mechanism of SCRAM; or let the operator allow it.',
    }
  return { ...DEFECT }
}

export function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw aborted(signal.reason)
}

export function requestInvalid(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'source_request_invalid', remedy: 'Discover again.' })
}

/** The topic of that name is another one by now, or has lost what was read of it. */
export function topicReplaced(name: string, how: string): SluiceError {
  return new SluiceError('CONFIG', `topic ${quotedTopic(name)} ${how}, so that the saved offsets mean nothing`, {
    code: 'source_topic_replaced',
    remedy:
      'Nothing was read, and the rows of before are kept. Name the topic in another connection to keep them; or read the table in full to replace them by what the topic holds now.',
  })
}

export function changedMeanwhile(name: string, how: string): SluiceError {
  return new SluiceError('TRANSIENT', `topic ${quotedTopic(name)} ${how} while it was read`, {
    code: 'source_changed',
    remedy: 'Nothing was taken over: sync again.',
  })
}

export function stalled(name: string, partition: number, offset: number): SluiceError {
  const where = `partition ${partition} of topic ${quotedTopic(name)}`
  return new SluiceError('TRANSIENT', `${where} gives no records from offset ${offset} on, though it has some`, {
    code: 'source_timeout',
    remedy:
      'Nothing was taken over: sync again. If it keeps happening, look into the logs of the brokers and into the quotas of the login.',
  })
}

export function tooMuch(what: string, remedy: string): SluiceError {
  return new SluiceError('QUOTA', what, { code: 'source_too_large', remedy })
}

export { aborted, connectorClosed }
