import { isSluiceError, SluiceError } from '@sluice/sdk'

/**
 * DuckDB's messages quote values, paths and names that the caller may not see. What passes on is a message of ours,
 * chosen by the kind of error that DuckDB puts in front; at most a name that stands in the caller's own statement.
 */
export function fromDriver(error: unknown, statement: string | null): SluiceError {
  if (isSluiceError(error)) return error
  const message = error instanceof Error ? error.message : String(error)
  if (isSystemError(error)) return fileError(error)
  if (isTooDeep(error)) return tooDeep(error)
  const failed = FAILED.exec(message)?.[1]
  if (failed !== undefined) return failedAs(failed, error)
  const kind = /^(?:Failure running pending result task: )?([A-Za-z -]+?) Error:/.exec(message)?.[1] ?? ''
  const options = { cause: error }
  switch (kind) {
    case 'Parser':
    case 'Syntax':
      return new SluiceError('INVALID_DATA', 'the statement is not valid SQL', { code: 'sql_syntax_error', ...options })
    case 'Catalog':
    case 'Binder':
      return bindingError(message, statement, error)
    case 'Conversion':
    case 'Out of Range':
    case 'Mismatch Type':
      return new SluiceError('INVALID_DATA', 'a value cannot be converted to the type that the statement asks for', {
        code: 'sql_conversion_error',
        remedy: 'Use try_cast to get null instead, or leave out the rows at fault.',
        ...options,
      })
    case 'Invalid Input':
    case 'Constraint':
    case 'Invalid type':
      return new SluiceError('INVALID_DATA', 'a function of the statement was given a value that it does not take', {
        code: 'sql_invalid_input',
        ...options,
      })
    case 'Out of Memory':
      return memoryExceeded(options.cause)
    case 'INTERRUPT':
      return new SluiceError('TRANSIENT', 'the statement was cancelled', { code: 'query_cancelled', ...options })
    case 'Permission':
      return new SluiceError('INVALID_DATA', 'the statement reaches for something outside its tables', {
        code: 'sql_not_allowed',
        ...options,
      })
    case 'Not implemented':
      return new SluiceError('INVALID_DATA', 'the statement uses something that the engine cannot do', {
        code: 'sql_unsupported',
        ...options,
      })
    case 'IO':
      return fileError(error)
    default:
      return new SluiceError('INTERNAL', 'the engine failed', { code: 'engine_failed', ...options })
  }
}

/** As macros of PostgreSQL's dialect say that a value has no result. */
const FAILED = /^(?:Failure running pending result task: )?Invalid Input Error: postgresql:([0-9A-Z]{5})$/

const FAILURES: Readonly<Record<string, string>> = {
  '22012': 'division by zero',
  '2201E': 'a logarithm of a number that is not above zero',
  '2201F': 'a square root of a negative number',
  '22003': 'a result that is too large for its type',
  '22011': 'a negative length of a part of a text',
  '2201G': 'bounds or a number of buckets that make none',
  '22023': 'a place in a text that is zero',
  '0A000': 'SIMILAR TO a pattern with brackets or escapes that is no constant is not taken',
}

function failedAs(sqlState: string, cause: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', FAILURES[sqlState] ?? 'a value has no result', {
    code: 'sql_invalid_input',
    remedy: 'Leave such values out with WHERE, or with CASE or nullif.',
    details: { sql_state: sqlState },
    cause,
  })
}

/** Everything that walks over a statement, its types or its values goes as deep as they do. */
function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes('call stack')
}

function tooDeep(cause: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', 'the statement, or a type in it, is nested too deeply', {
    code: 'sql_not_allowed',
    remedy: 'Write it with fewer levels, for instance with named queries in WITH.',
    cause,
  })
}

/** From Node itself: a file that is gone or closed to us. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}

/** Of values and not of files, though the engine calls it a matter of input and output: it is the same at every try. */
const UNWRITABLE = /^IO Error: Parquet (?:writer:|files do not support)/

function fileError(cause: unknown): SluiceError {
  if (cause instanceof Error && UNWRITABLE.test(cause.message)) {
    return new SluiceError('INVALID_DATA', 'a value of the statement cannot be kept in a parquet file', {
      code: 'sql_unsupported',
      remedy: 'Cast the column to VARCHAR, or ask for another format.',
      cause,
    })
  }
  if (/No space left on device|ENOSPC|EDQUOT|quota exceeded/i.test(String(cause))) {
    return new SluiceError('TRANSIENT', 'the disk that the engine writes to is full', {
      code: 'disk_full',
      remedy: 'Let the operator free space where the data folder is; nothing was changed.',
      cause,
    })
  }
  return new SluiceError('TRANSIENT', 'the engine could not read or write one of its files', {
    code: 'engine_io_failed',
    cause,
  })
}

export function memoryExceeded(cause?: unknown): SluiceError {
  return new SluiceError('QUOTA', 'the statement needs more memory than it may use', {
    code: 'query_memory_exceeded',
    remedy: 'Read fewer rows or columns at once, aggregate earlier, or avoid very long strings and lists.',
    cause,
  })
}

/** Each pattern's first group is a name that the statement itself must contain before it is repeated. */
const BINDING_MESSAGES: readonly (readonly [RegExp, string, string, (name: string) => string])[] = [
  [
    /Table with name (.+?) does not exist/,
    'table_not_found',
    'there is no table of that name',
    (name) => `there is no table ${name}`,
  ],
  [
    /Referenced column "(.+?)" (?:was )?not found/,
    'column_not_found',
    'there is no column of that name',
    (name) => `there is no column "${name}"`,
  ],
  [
    /does not have a column named "(.+?)"/,
    'column_not_found',
    'there is no column of that name',
    (name) => `there is no column "${name}"`,
  ],
  [
    /Referenced table "(.+?)" not found/,
    'table_not_found',
    'there is no table of that name',
    (name) => `there is no table or alias "${name}"`,
  ],
  [
    /Ambiguous reference to column name "(.+?)"/,
    'sql_invalid',
    'a column name is ambiguous',
    (name) => `the column name "${name}" is ambiguous`,
  ],
  [
    /column "?(.+?)"? must appear in the GROUP BY clause/,
    'sql_invalid',
    'a column is neither grouped nor aggregated',
    (name) => `the column "${name}" is neither grouped nor aggregated`,
  ],
  [
    /No function matches the given name and argument types '([A-Za-z_0-9]+)\(/,
    'sql_invalid',
    'a function does not take arguments of these types',
    (name) => `the function ${name} does not take arguments of these types`,
  ],
]

function bindingError(message: string, statement: string | null, cause: unknown): SluiceError {
  for (const [pattern, code, plain, named] of BINDING_MESSAGES) {
    const match = pattern.exec(message)
    if (!match) continue
    const name = match[1] ?? ''
    const own = statement?.toLowerCase().includes(name.toLowerCase()) ?? false
    const details = own && code === 'column_not_found' ? { details: { column: name } } : {}
    return new SluiceError('INVALID_DATA', own ? named(name) : plain, { code, cause, ...details })
  }
  return new SluiceError('INVALID_DATA', 'the statement does not fit the columns, types or functions that it names', {
    code: 'sql_invalid',
    cause,
  })
}
