/** For the runtime, which carries out transforms in the same Trino: statements, tenants' catalogs and types. */
export { catalogOf, ensureCatalog } from './catalogs.ts'
export { TrinoClient, TrinoFailure, type TrinoRow } from './client.ts'
export { selectedText, sqlType } from './dialect.ts'
export { settingsSchema, type TrinoSettings } from './settings.ts'
