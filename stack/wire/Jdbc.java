import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

/**
 * Reads crm.people by pgjdbc and tells, one thing a line, what it got: run against two servers, both are to tell the same.
 * Its arguments are the URL, the user and the password.
 */
public class Jdbc {
  static Connection connection;

  interface Asked {
    Object tell() throws SQLException;
  }

  static void say(String what, Asked asked) {
    String told;
    try {
      told = String.valueOf(asked.tell());
    } catch (SQLException error) {
      told = "error " + error.getSQLState();
    }
    System.out.println(what + ": " + told.replace("\n", "\\n"));
  }

  static String rows(ResultSet set, String... columns) throws SQLException {
    List<String> rows = new ArrayList<>();
    int width = set.getMetaData().getColumnCount();
    while (set.next()) {
      List<String> cells = new ArrayList<>();
      if (columns.length > 0) for (String column : columns) cells.add(set.getString(column));
      else for (int at = 1; at <= width; at++) cells.add(set.getString(at));
      rows.add(String.join("|", cells.stream().map(String::valueOf).toList()));
    }
    set.close();
    return rows.toString();
  }

  static String found(String sql, Object... values) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      String first = null;
      // The driver prepares on the server, and asks for binary, from the fifth time on.
      for (int times = 0; times < 7; times++) {
        for (int at = 0; at < values.length; at++) statement.setObject(at + 1, values[at]);
        String told = rows(statement.executeQuery());
        if (first != null && !first.equals(told)) return "at first " + first + ", then " + told;
        first = told;
      }
      return first;
    }
  }

  static String types(String sql) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      ParameterMetaData told = statement.getParameterMetaData();
      List<String> types = new ArrayList<>();
      for (int at = 1; at <= told.getParameterCount(); at++) types.add(told.getParameterTypeName(at));
      ResultSetMetaData columns = statement.getMetaData();
      for (int at = 1; at <= columns.getColumnCount(); at++)
        types.add(columns.getColumnName(at) + " " + columns.getColumnTypeName(at) + " " + columns.getPrecision(at) + "," + columns.getScale(at));
      return types.toString();
    }
  }

  static String inParts(int size) throws SQLException {
    connection.setAutoCommit(false);
    try (Statement statement = connection.createStatement()) {
      statement.setFetchSize(size);
      long sum = 0;
      int count = 0;
      ResultSet set = statement.executeQuery("SELECT id FROM crm.people ORDER BY id");
      for (; set.next(); count++) sum = sum * 31 + set.getInt(1);
      return count + " " + sum;
    } finally {
      connection.commit();
      connection.setAutoCommit(true);
    }
  }

  static String cancelled() throws SQLException {
    try (Statement statement = connection.createStatement()) {
      Thread cancelling = new Thread(() -> {
        try {
          for (;;) {
            Thread.sleep(500);
            statement.cancel();
          }
        } catch (InterruptedException | SQLException done) {
          return;
        }
      });
      cancelling.start();
      try {
        return rows(statement.executeQuery("SELECT count(*) FROM crm.people a, crm.people b, crm.people c, crm.people d WHERE a.id + b.id + c.id + d.id = -7"));
      } finally {
        cancelling.interrupt();
      }
    }
  }

  static String afterSavepoint() throws SQLException {
    connection.setAutoCommit(false);
    try (Statement statement = connection.createStatement()) {
      Savepoint point = connection.setSavepoint("point");
      String wrong;
      try {
        wrong = rows(statement.executeQuery("SELECT nothing FROM crm.people"));
      } catch (SQLException error) {
        wrong = error.getSQLState();
      }
      connection.rollback(point);
      return wrong + rows(statement.executeQuery("SELECT count(*) FROM crm.people"));
    } finally {
      connection.rollback();
      connection.setAutoCommit(true);
    }
  }

  public static void main(String[] args) throws Exception {
    connection = DriverManager.getConnection(args[0], args[1], args[2]);
    DatabaseMetaData meta = connection.getMetaData();
    say("product", meta::getDatabaseProductName);
    say("tables", () -> rows(meta.getTables(null, "crm", "%", new String[] {"TABLE"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
    say("columns", () -> rows(meta.getColumns(null, "crm", "people", null), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
    say("primary keys", () -> rows(meta.getPrimaryKeys(null, "crm", "people")));
    say("imported keys", () -> rows(meta.getImportedKeys(null, "crm", "people")));
    say("exported keys", () -> rows(meta.getExportedKeys(null, "crm", "people")));
    say("indexes", () -> rows(meta.getIndexInfo(null, "crm", "people", false, false)));
    say("best row identifier", () -> rows(meta.getBestRowIdentifier(null, "crm", "people", 0, true)));
    say("version columns", () -> rows(meta.getVersionColumns(null, "crm", "people")).length() > 0);
    say("schemas", () -> rows(meta.getSchemas(null, "crm"), "TABLE_SCHEM"));
    say("table types", () -> rows(meta.getTableTypes()).contains("TABLE"));
    say("types", () -> rows(meta.getTypeInfo(), "TYPE_NAME").contains("int4"));
    say("functions of crm", () -> rows(meta.getFunctions(null, "crm", "%"), "FUNCTION_NAME"));
    say("procedures of crm", () -> rows(meta.getProcedures(null, "crm", "%"), "PROCEDURE_NAME"));
    say("catalog", () -> connection.getCatalog().equals(rows(meta.getCatalogs(), "TABLE_CAT").replaceAll("[\\[\\]]", "")) || rows(meta.getCatalogs(), "TABLE_CAT").contains(connection.getCatalog()));

    String all = "SELECT id, city, big, amount, ok, ratio, day, moment, mark FROM crm.people";
    say("all", () -> found(all + " WHERE id < ? ORDER BY id", 4));
    say("by text", () -> found(all + " WHERE city = ?", "city 7"));
    say("by long", () -> found(all + " WHERE big = ?", 9007199254741000L));
    say("by decimal", () -> found("SELECT count(*) FROM crm.people WHERE amount < ?", new BigDecimal("-1.50001")));
    say("by boolean", () -> found("SELECT count(*) FROM crm.people WHERE ok = ?", true));
    say("by double", () -> found("SELECT count(*) FROM crm.people WHERE ratio > ?", 100.5));
    say("by java.sql.Date", () -> found("SELECT id FROM crm.people WHERE day = ?", java.sql.Date.valueOf("2024-03-01")));
    say("by LocalDate", () -> found("SELECT id FROM crm.people WHERE day = ?", LocalDate.of(2024, 3, 1)));
    say("by Timestamp", () -> found("SELECT id FROM crm.people WHERE moment = ?", Timestamp.valueOf("2024-02-29 13:00:00.5")));
    say("by LocalDateTime", () -> found("SELECT id FROM crm.people WHERE moment = ?", LocalDateTime.of(2024, 2, 29, 13, 0, 0, 500_000_000)));
    say("by OffsetDateTime", () -> found("SELECT id FROM crm.people WHERE instant = ?", OffsetDateTime.of(2024, 2, 29, 15, 0, 0, 0, ZoneOffset.ofHours(2))));
    say("by UUID", () -> found("SELECT id FROM crm.people WHERE mark = ?", UUID.fromString("8f14e45f-ceea-167a-5a36-dedd4bea2543")));
    say("by bytes", () -> found("SELECT id FROM crm.people WHERE bytes = ?", new byte[] {0, 7, (byte) 255}));
    say("in arithmetic", () -> found("SELECT id + ? AS more FROM crm.people WHERE id IN (?, ?) ORDER BY 1", 1, 2, 3));
    say("with limit", () -> found("SELECT id FROM crm.people ORDER BY id LIMIT ? OFFSET ?", 3, 5));
    say("between", () -> found("SELECT count(*) FROM crm.people WHERE id BETWEEN ? AND ?", 3, 5));
    say("with cast", () -> found("SELECT count(*) FROM crm.people WHERE id = CAST(? AS integer)", "7"));
    say("null", () -> found("SELECT count(*) FROM crm.people WHERE city = ?", (Object) null));
    say("parameters", () -> types("SELECT id, city, amount FROM crm.people WHERE id = ? AND city = ? AND big > ? AND day = ? AND moment < ? AND mark = ? AND ok = ? LIMIT ?"));

    for (int size : new int[] {1, 100, 5_000}) say("in parts of " + size, () -> inParts(size));
    say("cancelled", Jdbc::cancelled);
    say("after that", () -> found("SELECT count(*) FROM crm.people"));
    say("after a savepoint", Jdbc::afterSavepoint);
    say("schema", () -> {
      connection.setSchema("crm");
      return connection.getSchema();
    });
    say("isolation", () -> {
      connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
      return connection.getTransactionIsolation();
    });
    say("application", () -> {
      connection.setClientInfo("ApplicationName", "jdbc");
      return connection.getClientInfo("ApplicationName") + found("SELECT current_setting('application_name')");
    });
    say("is valid", () -> connection.isValid(60));
    connection.close();
  }
}
