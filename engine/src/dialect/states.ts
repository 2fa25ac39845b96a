/** By which SQLSTATE a PostgreSQL says why a statement failed, where the engine's own words tell it. */
import { isSluiceError, SluiceError } from '@sluice/sdk'

/** The first that fits. None of these words passes on: they say which of the states it is, and no more. */
const STATES: readonly (readonly [RegExp, string])[] = [
  [/^(?:Failure running pending result task: )?Out of Range Error:/, '22003'],
  [/^Conversion Error: .*(?:out of range for the destination type|Could not cast value .* to DECIMAL)/s, '22003'],
  [/^Conversion Error: .*(?:date|time|timestamp) field value out of range/s, '22008'],
  [/^Conversion Error: .*invalid (?:date|time|timestamp) field format/s, '22007'],
  [/^Conversion Error: .*(?:Could not convert string|Malformed JSON)/s, '22P02'],
  [/^Invalid Input Error: .*[Mm]alformed JSON/s, '22P02'],
  [/^Invalid Input Error: Could not parse string "[^]*" according to format specifier/, '22007'],
  [
    /^Invalid Input Error: (?:missing [\])]|unexpected \)|no argument for|bad repetition|invalid (?:escape|character class|perl op|named capture|repetition)|trailing \\)/,
    '2201B',
  ],
  [/^Binder Error: .*must appear in the GROUP BY clause/s, '42803'],
  [/^Binder Error: No function matches/, '42883'],
]

/** The same error, with its SQLSTATE. */
export function withState(error: unknown): unknown {
  if (!isSluiceError(error) || error.details?.['sql_state'] !== undefined || error.kind !== 'INVALID_DATA') return error
  const said = error.cause instanceof Error ? error.cause.message : ''
  const state = STATES.find(([pattern]) => pattern.test(said))?.[1]
  if (state === undefined) return error
  const { code, message, remedy, details, cause } = error
  return new SluiceError('INVALID_DATA', message, {
    code,
    ...(remedy === undefined ? {} : { remedy }),
    details: { ...details, sql_state: state },
    cause,
  })
}
