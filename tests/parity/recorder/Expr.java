import java.util.*;
import com.fasterxml.jackson.databind.*;

/** The expression language of the golden cases. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Expr {
    static final class UserError extends RuntimeException { UserError(String m) { super(m); } }
    static final ObjectMapper MAPPER = new ObjectMapper()
        .configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true)
        .configure(DeserializationFeature.USE_LONG_FOR_INTS, true);

    static String canonical(Object v) { try { return MAPPER.writeValueAsString(sorted(v)); } catch (Exception e) { throw new RuntimeException(e); } }
    static Object sorted(Object v) {
        if (v instanceof Map m) { TreeMap<String, Object> t = new TreeMap<>(); m.forEach((k, x) -> t.put((String) k, sorted(x))); return t; }
        if (v instanceof List l) { List<Object> r = new ArrayList<>(); for (Object x : l) r.add(sorted(x)); return r; }
        return v;
    }
    static String text(Object v) { return v instanceof String s ? s : canonical(v); }
    static boolean equal(Object a, Object b) {
        if (a == null || b == null) return a == b;
        if (a instanceof Number x && b instanceof Number y) return x.doubleValue() == y.doubleValue();
        if (a instanceof List x && b instanceof List y) { if (x.size() != y.size()) return false; for (int i = 0; i < x.size(); i++) if (!equal(x.get(i), y.get(i))) return false; return true; }
        if (a instanceof Map x && b instanceof Map y) { if (!x.keySet().equals(y.keySet())) return false; for (Object k : x.keySet()) if (!equal(x.get(k), y.get(k))) return false; return true; }
        return a.equals(b);
    }
    static boolean truth(Object o) { return Boolean.TRUE.equals(o); }
    static Number num(Object v) { if (!(v instanceof Number n)) throw new UserError("not a number: " + v); return n; }
    interface Stores { Object get(String store, Object key); Object version(String store, Object key, long at); }

    static Object eval(Object ex, Map<String, Object> vars) {
        Map<String, Object> e = (Map<String, Object>) ex;
        if (e.containsKey("var")) return vars.get(e.get("var"));
        if (e.containsKey("const")) return e.get("const");
        String fn = (String) e.get("fn");
        List<Object> raw = (List<Object>) e.getOrDefault("args", List.of());
        switch (fn) {
            case "object": { Map<String, Object> r = new LinkedHashMap<>(); ((Map<String, Object>) e.get("fields")).forEach((k, x) -> r.put(k, eval(x, vars))); return r; }
            case "if": return eval(raw.get(truth(eval(raw.get(0), vars)) ? 1 : 2), vars);
            case "coalesce": for (Object x : raw) { Object v = eval(x, vars); if (v != null) return v; } return null;
            case "and": for (Object x : raw) if (!truth(eval(x, vars))) return false; return true;
            case "or": for (Object x : raw) if (truth(eval(x, vars))) return true; return false;
            case "store_get": return ((Stores) vars.get("__stores")).get((String) e.get("store"), eval(raw.get(0), vars));
            case "versioned_get": return ((Stores) vars.get("__stores")).version((String) e.get("store"), eval(raw.get(0), vars), num(eval(raw.get(1), vars)).longValue());
            default:
        }
        List<Object> a = new ArrayList<>();
        for (Object x : raw) a.add(eval(x, vars));
        Object p = a.isEmpty() ? null : a.get(0), q = a.size() < 2 ? null : a.get(1);
        switch (fn) {
            case "field": { Object v = p; for (String n : ((String) e.get("path")).split("\\.")) { if (!(v instanceof Map m) || !m.containsKey(n)) return null; v = m.get(n); } return v; }
            case "set": { Map<String, Object> r = new LinkedHashMap<>(p == null ? Map.of() : (Map<String, Object>) p); r.put((String) e.get("name"), q); return r; }
            case "list": return a;
            case "append": { List<Object> r = new ArrayList<>(p == null ? List.of() : (List<Object>) p); r.add(q); return r; }
            case "concat_lists": { List<Object> r = new ArrayList<>(p == null ? List.of() : (List<Object>) p); if (q != null) r.addAll((List<Object>) q); return r; }
            case "remove_first": { if (p == null) return null; List<Object> r = new ArrayList<>((List<Object>) p); for (int i = 0; i < r.size(); i++) if (equal(r.get(i), q)) { r.remove(i); break; } return r; }
            case "length": return p == null ? null : p instanceof String s ? (long) s.codePointCount(0, s.length()) : p instanceof List l ? (long) l.size() : (long) ((Map) p).size();
            case "str": return text(p);
            case "concat": { StringBuilder b = new StringBuilder(); for (Object x : a) b.append(text(x)); return b.toString(); }
            case "upper": return p == null ? null : ((String) p).toUpperCase(Locale.ROOT);
            case "lower": return p == null ? null : ((String) p).toLowerCase(Locale.ROOT);
            case "split": return p == null ? null : new ArrayList<Object>(List.of(((String) p).split(java.util.regex.Pattern.quote((String) e.get("sep")), -1)));
            case "add": case "sub": case "mul": {
                Object r = p;
                for (int i = 1; i < a.size(); i++) {
                    if (r == null || a.get(i) == null) return null;
                    Number x = num(r), y = num(a.get(i));
                    if (x instanceof Double || y instanceof Double) { double d = x.doubleValue(), f = y.doubleValue(); r = fn.equals("add") ? d + f : fn.equals("sub") ? d - f : d * f; }
                    else { long d = x.longValue(), f = y.longValue(); r = fn.equals("add") ? d + f : fn.equals("sub") ? d - f : d * f; }
                }
                return r == null ? null : num(r);
            }
            case "mod": return p == null || q == null ? null : Math.floorMod(num(p).longValue(), num(q).longValue());
            case "min": case "max": { Object best = null; for (Object x : a) if (x != null && (best == null || (fn.equals("min") ? cmp(x, best) < 0 : cmp(x, best) > 0))) best = x; return best; }
            case "eq": return equal(p, q);
            case "ne": return !equal(p, q);
            case "gt": return p != null && q != null && cmp(p, q) > 0;
            case "ge": return p != null && q != null && cmp(p, q) >= 0;
            case "lt": return p != null && q != null && cmp(p, q) < 0;
            case "le": return p != null && q != null && cmp(p, q) <= 0;
            case "is_null": return p == null;
            case "not": return !truth(p);
            case "fail": throw new UserError((String) e.get("message"));
            default: throw new IllegalArgumentException("function " + fn);
        }
    }
    static int cmp(Object a, Object b) {
        if (a instanceof String != b instanceof String) throw new UserError("cannot compare");
        if (a instanceof String s) return s.compareTo((String) b);
        Number x = num(a), y = num(b);
        return x instanceof Double || y instanceof Double ? Double.compare(x.doubleValue(), y.doubleValue()) : Long.compare(x.longValue(), y.longValue());
    }
}
